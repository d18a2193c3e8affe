"""Looking backwards from a value: what made it, of what, and which numbers are in it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph import Graph
from convert.graph.tensors import dims_of

from ..common.decimal_constants import unrounded_number


def inputs_of(value: ir.Value | None, operator: str) -> list[ir.Value]:
    """The inputs of the node that makes `value` if it is of that type, else none."""
    maker = value.producer() if value is not None else None
    if maker is None or maker.op_type != operator or maker.domain:
        return []
    return [v for v in maker.inputs if v is not None]


def operand_pairs(value: ir.Value | None, operator: str) -> list[tuple[ir.Value, ir.Value]]:
    """The two inputs of a commutative operator, both ways round."""
    found = inputs_of(value, operator)
    return [(found[0], found[1]), (found[1], found[0])] if len(found) == 2 else []


def other_operand(value: ir.Value | None, operator: str, wanted: float) -> ir.Value | None:
    """What is combined with that number to make `value`."""
    return next(
        (x for x, constant in operand_pairs(value, operator) if is_close(scalar_content(constant), wanted)), None
    )


def single_value(values: Sequence[ir.Value]) -> ir.Value | None:
    """The one value, or None for none or several."""
    return values[0] if len(values) == 1 else None


def scalar_content(value: ir.Value | None) -> float | None:
    """The content of a constant with one element, as the program wrote it."""
    tensor = value.const_value if value is not None else None
    if tensor is None or tensor.size != 1 or not tensor.dtype.is_floating_point():
        return None
    content = float(tensor.numpy().item())
    return unrounded_number(content) if tensor.dtype == ir.DataType.FLOAT else content


def is_close(content: float | None, wanted: float) -> bool:
    """Equal up to the rounding of a float32 constant (a float16 model's constants are not recognized).

    A number of six digits is another one: what the program computes with it differs from the layer in all of them.
    """
    return content is not None and abs(content - wanted) <= 2.0**-23 * abs(wanted)


def varies_along_last(value: ir.Value, size: int) -> bool:
    """Whether a constant varies along the last dim only, which has `size` elements."""
    tensor = value.const_value
    return tensor is not None and tensor.size == size and bool(tensor.shape) and dims_of(tensor)[-1] == size


def perm_of(value: ir.Value | None) -> tuple[ir.Value, list[int]] | None:
    """What a Transpose was made of, and its permutation; None for other values."""
    source = single_value(inputs_of(value, "Transpose"))
    maker = value.producer() if value is not None else None
    if source is None or maker is None or "perm" not in maker.attributes:
        return None
    return source, list(maker.attributes["perm"].as_ints())


def mean_over(mean: ir.Value | None, g: Graph) -> tuple[ir.Value, list[int]] | None:
    """What `mean` is the mean of and along which axes (from 0 on, in order), if it keeps them."""
    maker = mean.producer() if mean is not None else None
    if maker is not None and maker.op_type == "Add" and (nothing := maker.inputs[1]) is not None:
        # What makes the mean of nothing NaN (`ops/reduce.py`): a layer has something.
        zero, mean = [*inputs_of(nothing, "Div"), None][0], maker.inputs[0]
        if scalar_content(zero) == 0 and mean is not None:
            maker = mean.producer()
    if maker is None or maker.op_type != "ReduceMean" or len(maker.inputs) != 2:
        return None
    x, axes = maker.inputs[0], g.static(maker.inputs[1])
    kept = "keepdims" not in maker.attributes or maker.attributes["keepdims"].as_int() == 1
    if not kept or x is None or axes is None or x.shape is None:
        return None
    return x, sorted(int(a) % len(x.shape) for a in axes.ravel())
