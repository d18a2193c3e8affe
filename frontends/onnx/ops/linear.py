"""Matrix products and convolutions with fused operators, and weights of few bits."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import lazy_tensor
from convert.numerics.matrices import cast_to_float64, identity_matrix, matrix_shape
from convert.numerics.solve import solve_with_factors

from ..rules import runtime_op
from .activation import activated


@runtime_op("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul")
def fused_matmul(
    g: Graph, a: ir.Value, b: ir.Value, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> ir.Value:  # fmt: skip
    y = g.MatMul(_turned(g, a, transA, transBatchA), _turned(g, b, transB, transBatchB))
    return y if alpha == 1 else g.Mul(y, alpha)


def _turned(g: Graph, x: ir.Value, last: int, batch: int) -> ir.Value:
    """With `batch`, move the first dim to the position after the other batch dims; then, with `last`, swap the last two
    dims.
    """
    rank = g.rank(x)
    if rank < 2 or not (last or batch):
        return x
    perm = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if last:
        perm[-2:] = perm[-1], perm[-2]
    return g.Transpose(x, perm=perm)


@runtime_op("com.microsoft::FusedGemm")
def fused_gemm(
    g: Graph, a: ir.Value, b: ir.Value, c: ir.Value | None = None, *, activation: str = "",
    activation_alpha: float | None = None, activation_beta: float | None = None, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> ir.Value:  # fmt: skip
    y = g.Gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(g, y, activation, [n for n in (activation_alpha, activation_beta) if n is not None])


@runtime_op("com.microsoft::FusedConv")
def fused_conv(
    g: Graph, x: ir.Value, w: ir.Value, bias: ir.Value | None = None, z: ir.Value | None = None, *,
    activation: str = "", activation_params: list[float] | None = None, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> ir.Value:  # fmt: skip
    """FusedConv; z is added before the activation."""
    y = g.Conv(x, w, bias, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
               strides=strides)  # fmt: skip
    return activated(g, y if z is None else g.Add(y, z), activation, activation_params or [])


@runtime_op("com.microsoft::MatMulNBits")
def matmul_n_bits(
    g: Graph, a: ir.Value, b: ir.Value, scales: ir.Value, zeros: ir.Value | None = None, order: ir.Value | None = None,
    bias: ir.Value | None = None, *, K: int, N: int, bits: int = 4, block_size: int, accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> ir.Value:  # fmt: skip
    """Return the product with a weight stored in `bits` bits, in blocks with a scale each.

    The weight is dequantized when it is read. accuracy_level: how a runtime may round.
    """
    known = [v for v in (b, scales, zeros) if v is not None]
    if order is not None or weight_prepacked or any(v.const_value is None for v in known):
        raise Unsupported("an order of rows, packed weights, or a weight that is computed")
    if bits not in (2, 4, 8):
        raise Unsupported(f"weights of {bits} bits")
    dtype = g.dtype(a)

    def unpacked() -> np.ndarray:
        """Return [K, N] in the dtype of `a`."""
        blocks = -(-K // block_size)
        content = [v.const_value.numpy() for v in known if v.const_value is not None]
        steps = _unpack(content[0].reshape(N, -1), bits)[:, : blocks * block_size].reshape(N, blocks, block_size)
        zero = np.full((N, blocks), 2.0 ** (bits - 1), np.float32)
        if zeros is not None and content[2].dtype == np.uint8:
            zero = _unpack(content[2].reshape(N, -1), bits)[:, :blocks].astype(np.float32)
        elif zeros is not None:
            zero = content[2].astype(np.float32).reshape(N, blocks)
        scale = content[1].astype(np.float32).reshape(N, blocks, 1)
        full = (steps.astype(np.float32) - zero[..., None]) * scale
        return full.reshape(N, -1)[:, :K].T.astype(dtype.numpy())

    weight = g.initializer(f"{b.name}.in_full", lazy_tensor(dtype, [K, N], unpacked))
    y = g.MatMul(a, weight)
    return y if bias is None else g.Add(y, bias)


def _unpack(rows: np.ndarray, bits: int) -> np.ndarray:
    """Unpack bytes [rows, n] into numbers of `bits` bits [rows, n · 8 / bits], lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((rows[..., None] >> shifts) & np.uint8(2**bits - 1)).reshape(len(rows), -1)


@runtime_op("com.microsoft::Inverse")
def inverse(g: Graph, x: ir.Value) -> ir.Value:
    """Inverse of matrices of known size, in float64."""
    n, columns = matrix_shape(g, x)
    if n != columns:
        raise Unsupported(f"a matrix of {n} rows and {columns} columns")
    wide = cast_to_float64(g, x)
    y, _, _ = solve_with_factors(g, wide, identity_matrix(g, wide, n))
    return y if g.dtype(x) == ir.DataType.DOUBLE else g.Cast(y, to=g.dtype(x))
