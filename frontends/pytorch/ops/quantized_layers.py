"""Layers on PyTorch's quantized tensors, whose weights are packed objects: convolutions, linear layers, norms."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from convert.graph import Graph

from ..common.quantization import quantized_constant, round_to_scheme
from ..common.values import cast
from ..common.weights import tensor_of
from ..rules import torch_op
from .quantized import choose_scheme, requantize

# -- packed weights ---------------------------------------------------------------------------------------------------


def _unpack_weights(g: Graph, packed: Any, kind: str) -> tuple[ir.Value, ir.Value | None]:
    """Return the weight, as DequantizeLinear of its integers, and the bias of a packed object."""
    weight, bias = getattr(torch.ops.quantized, f"{kind}_unpack")(packed)
    return _add_weight(g, weight, "weight"), None if bias is None else _add_weight(g, bias, "bias")


def _add_weight(g: Graph, tensor: torch.Tensor, name: str) -> ir.Value:
    tensor, module = tensor.detach(), g.location.module
    name = f"{module}.{name}" if module else name
    if tensor.is_quantized:
        return quantized_constant(g, tensor, name)
    return g.initializer(name, tensor_of(tensor, name))


# -- convolutions -----------------------------------------------------------------------------------------------------


def _float_convolution(g: Graph, x: ir.Value, packed: Any, dims: int, transposed: bool) -> ir.Value:
    """Return the float convolution; a packed one-dim convolution is a two-dim one with a trivial first dim."""
    kind = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    weight, bias = _unpack_weights(g, packed, kind)
    packing = f"conv{max(dims, 2)}d"
    ops = torch.ops.quantized
    stride, padding, dilation, more = (
        list(getattr(ops, f"{packing}_{name}")(packed))[-dims:]
        for name in ("stride", "padding", "dilation", "output_padding")
    )
    groups = getattr(ops, f"{packing}_groups")(packed)
    if transposed:
        return torch_op.apply(g, kind, [x, weight, bias, stride, padding, more, groups, dilation])
    return torch_op.apply(g, kind, [x, weight, bias, stride, padding, dilation, groups])


def _convolution(dims: int, relu: bool = False, transposed: bool = False) -> Any:
    def rule(g: Graph, qx: ir.Value, packed_weight: Any, output_scale: float, output_zero_point: int) -> ir.Value:
        out = _float_convolution(g, qx, packed_weight, dims, transposed)
        return requantize(g, g.Relu(out) if relu else out, qx, output_scale, output_zero_point)

    return rule


def _legacy_convolution(dims: int, relu: bool) -> Any:
    """Return the rule of the older overload, whose other arguments repeat the content of the packed object."""
    rule = _convolution(dims, relu)

    def old(
        g: Graph, qx: ir.Value, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int,
        output_scale: float, output_zero_point: int,
    ) -> ir.Value:  # fmt: skip
        return rule(g, qx, weight, output_scale, output_zero_point)

    return old


def _dynamic_convolution(dims: int, transposed: bool = False) -> Any:
    def rule(g: Graph, qx: ir.Value, packed_weight: Any, reduce_range: bool = False) -> ir.Value:
        x = round_to_scheme(g, qx, choose_scheme(g, qx, torch.uint8, reduce_range))
        return _float_convolution(g, x, packed_weight, dims, transposed)

    return rule


torch_op.same(_convolution, **{"quantized::conv1d": 1, "quantized::conv2d.new": 2, "quantized::conv3d.new": 3})
torch_op.same(
    lambda dims: _convolution(dims, relu=True),
    **{"quantized::conv1d_relu": 1, "quantized::conv2d_relu.new": 2, "quantized::conv3d_relu.new": 3},
)
torch_op.same(
    lambda dims: _convolution(dims, transposed=True),
    **{f"quantized::conv_transpose{dims}d": dims for dims in (1, 2, 3)},
)
torch_op.same(
    lambda pair: _legacy_convolution(*pair),
    **{f"quantized::conv{dims}d{'_relu' * relu}": (dims, relu) for dims in (2, 3) for relu in (False, True)},
)
torch_op.same(_dynamic_convolution, **{f"quantized::conv{dims}d_dynamic": dims for dims in (1, 2, 3)})
torch_op.same(
    lambda dims: _dynamic_convolution(dims, True),
    **{f"quantized::conv_transpose{dims}d_dynamic": dims for dims in (1, 2, 3)},
)


@torch_op("quantized::conv2d_add", "quantized::conv2d_add_relu")
def conv2d_add(g, qx, qaccum, packed_weight, output_scale, output_zero_point):
    out = g.Add(_float_convolution(g, qx, packed_weight, 2, False), qaccum)
    relu = g.location.operator.endswith("relu")
    return requantize(g, g.Relu(out) if relu else out, qx, output_scale, output_zero_point)


# -- linear layers ----------------------------------------------------------------------------------------------------


def _float_linear(g: Graph, x: ir.Value, packed: Any) -> ir.Value:
    return torch_op.apply(g, "linear", [x, *_unpack_weights(g, packed, "linear")])


@torch_op("quantized::linear")
def linear(g, X, W_prepack, Y_scale_i, Y_zero_point_i):
    return requantize(g, _float_linear(g, X, W_prepack), X, Y_scale_i, Y_zero_point_i)


@torch_op("quantized::linear_relu")
def linear_relu(g, X, W_prepack, Y_scale_i, Y_zero_point_i):
    return requantize(g, g.Relu(_float_linear(g, X, W_prepack)), X, Y_scale_i, Y_zero_point_i)


@torch_op("quantized::linear_leaky_relu")
def linear_leaky_relu(g, X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):
    out = g.LeakyRelu(_float_linear(g, X, W_prepack), alpha=negative_slope)
    return requantize(g, out, X, Y_scale_i, Y_zero_point_i)


@torch_op("quantized::linear_tanh")
def linear_tanh(g, X, W_prepack, Y_scale_i, Y_zero_point_i):
    return requantize(g, g.Tanh(_float_linear(g, X, W_prepack)), X, Y_scale_i, Y_zero_point_i)


@torch_op("quantized::linear_dynamic")
def linear_dynamic(g, X, W_prepack, reduce_range=False):
    return _float_linear(g, round_to_scheme(g, X, choose_scheme(g, X, torch.uint8, reduce_range)), W_prepack)


@torch_op("quantized::linear_relu_dynamic")
def linear_relu_dynamic(g, X, W_prepack, reduce_range=False):
    return g.Relu(linear_dynamic(g, X, W_prepack, reduce_range))


@torch_op("quantized::linear_dynamic_fp16")
def linear_dynamic_fp16(g, X, W_prepack):
    weight, bias = torch.ops.quantized.linear_unpack_fp16(W_prepack)
    parts = [None if t is None else _add_weight(g, t.float(), n) for t, n in ((weight, "weight"), (bias, "bias"))]
    return torch_op.apply(g, "linear", [X, *parts])


@torch_op("quantized::linear_relu_dynamic_fp16")
def linear_relu_dynamic_fp16(g, X, W_prepack):
    return g.Relu(linear_dynamic_fp16(g, X, W_prepack))


# -- normalizations and embeddings ------------------------------------------------------------------------------------


def _batch_norm(relu: bool) -> Any:
    def rule(
        g: Graph, qx: ir.Value, weight: Any, bias: Any, mean: ir.Value, var: ir.Value, eps: float,
        output_scale: float, output_zero_point: int,
    ) -> ir.Value:  # fmt: skip
        out = torch_op.apply(g, "batch_norm", [qx, weight, bias, mean, var, False, 0.0, eps, False])
        return requantize(g, g.Relu(out) if relu else out, qx, output_scale, output_zero_point)

    return rule


torch_op.same(
    _batch_norm,
    **{f"quantized::batch_norm{d}{'_relu' * relu}": relu for d in ("", "1d", "2d", "3d") for relu in (False, True)},
)


@torch_op("quantized::layer_norm")
def layer_norm(g, input, normalized_shape, weight, bias, eps, output_scale, output_zero_point):
    out = torch_op.apply(g, "layer_norm", [input, normalized_shape, weight, bias, eps])
    return requantize(g, out, input, output_scale, output_zero_point)


@torch_op("quantized::group_norm")
def group_norm(g, input, num_groups, weight, bias, eps, output_scale, output_zero_point):
    out = torch_op.apply(g, "group_norm", [input, num_groups, weight, bias, eps])
    return requantize(g, out, input, output_scale, output_zero_point)


@torch_op("quantized::instance_norm")
def instance_norm(g, input, weight, bias, eps, output_scale, output_zero_point):
    out = torch_op.apply(g, "instance_norm", [input, weight, bias, None, None, True, 0.0, eps, False])
    return requantize(g, out, input, output_scale, output_zero_point)


@torch_op("quantized::embedding_byte", "quantized::embedding_4bit")
def embedding_byte(g, weight, indices, pruned_weights=False):
    """Rows of integers, each with a scale and a zero point that is no integer."""
    found = torch.ops.quantized.embedding_bag_unpack(weight)
    rows = g.Gather(_add_weight(g, torch.int_repr(found), "weight_steps"), indices, axis=0)
    scales = found.q_per_channel_scales().float()[:, None]
    shifts = -found.q_per_channel_zero_points().float()[:, None] * scales
    scale, shift = (
        g.Gather(_add_weight(g, t, name), indices, axis=0) for t, name in ((scales, "scale"), (shifts, "shift"))
    )
    return g.Add(g.Mul(cast(g, rows, torch.float32), scale), shift)


torch_op.gap(
    "bags of quantized embeddings",
    *(f"quantized::embedding_bag_{width}{kind}" for width in ("byte", "4bit") for kind in ("", "_rowwise_offsets")),
)
