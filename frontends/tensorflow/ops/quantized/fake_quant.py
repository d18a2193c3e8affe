"""Fake quantization: numbers rounded to integer levels, written as QuantizeLinear and DequantizeLinear.

TensorFlow rounds halves up, QuantizeLinear to even. Halves are common, because the mean of two quantized numbers is
one: of 2,000 of them, QuantizeLinear alone put 600 on another level. So the level is computed by TensorFlow's own
arithmetic, in its order, and QuantizeLinear (with scale 1) only stores it; results are the same to the last bit. A
weight is quantized once, during reading, and only its DequantizeLinear remains. (The result for NaN differs, because it
has no level.)
"""

from __future__ import annotations

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.reductions import reduce_dims

from ...common import shape_values
from ...common.quantization_levels import (
    Levels,
    check_bits,
    constant_levels,
    fake_quantize,
    quantize_dequantize,
    run_time_levels,
)
from ...rules import tf_op


@tf_op("FakeQuantWithMinMaxArgs")
def fake_quant_args(
    g: Graph, inputs: ir.Value, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> ir.Value:
    return fake_quantize(g, inputs, constant_levels(min, max, num_bits, narrow_range), divided=False)


@tf_op("FakeQuantWithMinMaxVars")
def fake_quant_vars(
    g: Graph, inputs: ir.Value, min: ir.Value, max: ir.Value, *, num_bits: int, narrow_range: bool
) -> ir.Value:
    return fake_quantize(g, inputs, _quantization_levels(g, min, max, num_bits, narrow_range), divided=True)


@tf_op("FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_vars_per_channel(
    g: Graph, inputs: ir.Value, min: ir.Value, max: ir.Value, *, num_bits: int, narrow_range: bool
) -> ir.Value:
    return fake_quantize(g, inputs, _quantization_levels(g, min, max, num_bits, narrow_range), divided=False)


def _quantization_levels(g: Graph, low: ir.Value, high: ir.Value, bits: int, narrow: bool) -> Levels:
    limits = g.static(low), g.static(high)
    if limits[0] is None or limits[1] is None:
        return run_time_levels(g, low, high, bits, narrow)
    return constant_levels(limits[0], limits[1], bits, narrow)


@tf_op("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def quantize_and_dequantize(
    g: Graph, input: ir.Value, input_min: ir.Value, input_max: ir.Value, *, signed_input: bool, num_bits: int,
    range_given: bool, round_mode: str, narrow_range: bool, axis: int,
) -> ir.Value:  # fmt: skip
    """QuantizeAndDequantize: levels symmetrical about zero, over a given range or that of the numbers."""
    check_bits(num_bits, 1, 61 if signed_input else 62)
    if range_given:
        axis = -1  # kernels use one range for all, regardless of the axis
    else:
        axes = [i for i in range(g.rank(input)) if axis == -1 or i != axis % g.rank(input)]
        input_min, input_max = (reduce_dims(g, f"Reduce{kind}", input, axes, keepdims=0) for kind in ("Min", "Max"))
    least = -(2 ** (num_bits - 1)) + int(narrow_range) if signed_input else 0
    most = 2 ** (num_bits - 1) - 1 if signed_input else 2**num_bits - 1
    if axis != -1:
        axis %= g.rank(input)
    return quantize_dequantize(g, input, input_min, input_max, (least, most), axis,
                   up=round_mode == "HALF_UP", given=range_given)  # fmt: skip


@tf_op("QuantizeAndDequantizeV3")
def quantize_and_dequantize_v3(
    g: Graph, input: ir.Value, input_min: ir.Value, input_max: ir.Value, num_bits: ir.Value, *, signed_input: bool,
    range_given: bool, narrow_range: bool, axis: int,
) -> ir.Value:  # fmt: skip
    return quantize_and_dequantize(
        g, input, input_min, input_max, signed_input=signed_input, num_bits=shape_values.integer(num_bits, "num_bits"),
        range_given=range_given, round_mode="HALF_TO_EVEN", narrow_range=narrow_range, axis=axis,
    )  # fmt: skip
