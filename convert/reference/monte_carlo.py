"""Evaluates a graph in float64 with random rounding errors, of the size that runtimes with narrower dtypes make.

This is Monte Carlo arithmetic (Parker 1997; Verificarlo, CADNA): each operator's result is perturbed by a random error
of the size that its kernel may make. The spread of the outputs over several runs is the effect of rounding on them.
Errors are multiples of the unit roundoff u of the dtype that a value has in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.graph.metadata import CANCELLING_KEY
from convert.graph.tensors import ROUNDOFF, numpy_dtype
from convert.graph.values import MOVES
from convert.passes.to_float64 import widen_model
from convert.reference.executor import Executor

Array = np.ndarray

_REAL = {
    dtype: ROUNDOFF[numpy_dtype(dtype).name]
    for dtype in (ir.DataType.DOUBLE, ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
}
_DTYPES = {roundoff: dtype for dtype, roundoff in _REAL.items()}
_SINGLE, _DOUBLE = ROUNDOFF["float32"], ROUNDOFF["float64"]
_ROUNDOFF = {**_REAL, ir.DataType.COMPLEX64: _SINGLE, ir.DataType.COMPLEX128: _DOUBLE}
"""Unit roundoff by the dtype of a value."""

_MEAN = 0.735
"""A rounding error is at most u times the largest power of two below a number.

Its root mean square, over numbers with evenly spread logarithms, is this factor times u, relative to the number:
√(3/(8·ln 2)).
"""

_PROGRAM = 64
"""Largest number of elements of a constant of a program; larger arrays are weights, in the dtype of the graph."""

# -- what kernels do --------------------------------------------------------------------------------------------------

_EXACT = frozenset(
    (
        "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice", "Split", "Concat",
        "Gather", "GatherElements", "GatherND", "Tile", "Shape", "Size", "Where", "ScatterND", "ScatterElements", "Pad",
        "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Relu", "Max", "Min", "Neg", "Abs", "Constant",
        "ConstantOfShape", "Range", "DepthToSpace", "SpaceToDepth", "Floor", "Ceil", "Round", "Sign", "ArgMax",
        "ArgMin", "TopK", "OneHot", "NonZero", "Clip", "Dropout", "If", "Loop", "Scan", "Trilu", "ReverseSequence",
        "Compress", "Unique", "EyeLike", "IsInf", "IsNaN", "MaxUnpool", "CenterCropPad", "NonMaxSuppression",
    )
)  # fmt: skip
"""Operators that move, select or compare numbers, or round to integers: they make no rounding error of their own."""

_ONCE = frozenset(("Add", "Sub", "Mul", "Div", "Sqrt", "Cast", "CastLike", "DequantizeLinear", "Reciprocal"))
"""Operators whose results are rounded once. Other operators may round their arguments, too."""

_RANGES = {
    "Sigmoid": (0, 1), "HardSigmoid": (0, 1), "Softmax": (0, 1), "Tanh": (-1, 1), "Erf": (-1, 1), "Sin": (-1, 1),
    "Cos": (-1, 1),
}  # fmt: skip
_TAILED = frozenset(("HardSwish", "Swish", "Gelu", "Mish"))
_BOUNDED = frozenset((*_RANGES, *_TAILED, "LSTM", "GRU", "RNN"))
"""Functions and gates whose kernels have an error relative to 1, not to their tails; most results are limited
to a range.
"""

_SOFTMAX = frozenset(("Softmax", "LogSoftmax"))

_KERNEL_STEP = 1 / 64
"""The error, in steps, of integer kernels: they round twice, and ties go either way."""
_TABLE_STEP = 1 / 8
"""The error, in steps, of kernels with lookup tables or several roundings."""
_WIDE_MULTIPLIER = 2.0**-17
"""The relative error of the 15-bit multipliers with which kernels on 16-bit integers scale their sums."""
_TABLES = frozenset(
    (
        "AveragePool", "Elu", "Exp", "Gelu", "GlobalAveragePool", "HardSigmoid", "HardSwish", "LeakyRelu", "LogSoftmax",
        "LpNormalization", "ReduceMean", "Resize", "Sigmoid", "Softmax", "Tanh",
    )
)  # fmt: skip

_SAMPLING = frozenset(("Resize", "Upsample", "GridSample", "RoiAlign", "AffineGrid"))
"""Operators that compute coordinates of their inputs, with an error relative to the largest coordinate."""

_NORMALIZATION = 2.0
"""The error of a mean over n numbers inside a normalization, in roundings times √n. onnxruntime's
LayerNormalization over 131,072 numbers has an error of 3.8e-5, its GroupNormalization over 64² pixels of 64
channels one of 2.4e-5.
"""


def run_with_rounding(
    model: ir.Model,
    feeds: Mapping[str, Array],
    seed: int,
    *,
    times: float = 1.0,
    outputs: Sequence[str] = (),
    roundoff: float | None = None,
    integers: bool = False,
) -> dict[str, Any]:
    """Return outputs of `model` in float64 with random rounding errors, by name.

    - `model`: in its own dtypes, which determine the size of the errors
    - `times`: factor on the errors; 0 means none
    - `outputs`: names of values of the outermost graph to return instead
    - `roundoff`: unit roundoff of all values, instead of that of their dtypes; with 2⁻⁵³ the errors are those of
      float64
    - `integers`: whether integer kernels compute quantized values, which then are off by part of a step

    Raises as `convert.reference.executor.run` does.
    """
    wide, roundoffs, rng = widen_model(model), {}, np.random.default_rng([5, seed])
    for narrow, node in zip(model.graph.all_nodes(), wide.graph.all_nodes(), strict=True):
        dtypes = [v.dtype for v in narrow.outputs if v.dtype in _ROUNDOFF]
        roundoffs[node] = roundoff or (_ROUNDOFF[dtypes[0]] if dtypes else _SINGLE)
        if dtypes and dtypes[0] == ir.DataType.DOUBLE and not roundoff:
            _move_attributes(node, times, rng)
    if not roundoff:
        _move_constants(model, wide, times, rng)
    executor = _RoundingExecutor(set(outputs), every=False)
    executor.roundoffs, executor.times, executor.rng, executor.integers = roundoffs, times, rng, integers
    found = executor.run_model(wide, feeds)
    return {name: executor.kept[name] if name in executor.kept else found[name] for name in outputs} or found


def _move_attributes(node: ir.Node, times: float, rng: np.random.Generator) -> None:
    """Perturb float attributes of a node, such as epsilon, by their rounding to float32 in ONNX files."""
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.FLOAT and attribute.as_float() != float(np.float32(attribute.as_float())):
            error = times * _SINGLE * rng.uniform(-1.0, 1.0)
            node.attributes[name] = ir.AttrFloat32(name, attribute.as_float() * (1 + error))


def _move_constants(model: ir.Model, wide: ir.Model, times: float, rng: np.random.Generator) -> None:
    """Perturb constants of a program that the graph's dtype cannot represent, such as 0.8, by their rounding error."""
    for narrow, graph in zip(model.graphs(), wide.graphs(), strict=True):
        for before, value in zip(narrow.initializers.values(), graph.initializers.values(), strict=True):
            tensor = value.const_value
            if tensor is None or tensor.size > _PROGRAM or before.dtype not in _REAL or before.dtype == value.dtype:
                continue
            array = tensor.numpy()
            if (array.astype(numpy_dtype(before.dtype)) != array).any():
                error = times * _ROUNDOFF[before.dtype] * rng.uniform(-_MEAN, _MEAN, array.shape)
                value.const_value = ir.Tensor(array * (1 + error), name=value.name)


class _RoundingExecutor(Executor):
    roundoffs: Mapping[ir.Node, float]
    times: float
    rng: np.random.Generator
    integers: bool

    def results(self, node: ir.Node, inputs: list[Any]) -> Sequence[Any]:
        operator, unit = node.op_type, self.roundoffs.get(node, _SINGLE)
        roundoff = unit * self.times
        exact = list(super().results(node, inputs))
        if not roundoff or operator in _EXACT or not any(_is_floating(a) for a in (*inputs, *exact)):
            return exact
        if operator == "QuantizeLinear":
            given = self._kernel_moved(node, inputs) if self.integers else self._quotient_moved(inputs, roundoff)
            return super().results(node, given)
        found, size = exact, None
        if operator in _SUMS:
            size = self._sum_size(node, inputs, exact)
        elif operator not in _ONCE | _SAMPLING:
            found = list(super().results(node, self._arguments_moved(node, inputs, roundoff)))
        moved = [
            self._result_moved(node, a, roundoff, None if place else size, inputs) for place, a in enumerate(found)
        ]
        if unit > _DOUBLE:
            dtype = numpy_dtype(_DTYPES[unit])
            # a result that is 0 in float64 may be a small tail value in float32
            kept = moved if operator in _TAILED else exact
            return [_in_range_of(dtype, a, b, self.rng) for a, b in zip(moved, kept, strict=True)]
        return [np.where(b == np.rint(b), b, a) if _is_floating(a) else a for a, b in zip(moved, exact, strict=True)]

    def _draw(self, shape: Sequence[int]) -> Array:
        return self.rng.uniform(-_MEAN, _MEAN, shape)

    def _result_moved(
        self, node: ir.Node, array: Any, roundoff: float, size: Array | None, inputs: Sequence[Any]
    ) -> Any:
        """Return the result with an error of its own.

        `size` is the magnitude that the error of a sum is relative to.
        """
        if not _is_floating(array):
            return array
        array = np.asarray(array)
        scale = np.abs(array) if size is None or size.shape != array.shape else size
        if node.op_type in _SOFTMAX and inputs[0].ndim:
            terms = inputs[0].shape[node.attributes.get_int("axis", -1)]
            scale = scale + np.sqrt(terms) / 3 * (scale if node.op_type == "Softmax" else 1.0)
        if node.op_type in _BOUNDED:
            scale = np.maximum(scale, 1.0)
        if node.op_type in _SAMPLING and inputs[0].size:
            scale = scale + max(inputs[0].shape[2:] or (1,)) * float(np.abs(inputs[0]).max())
        moved = self._draw(array.shape)
        moved = moved * scale
        moved *= roundoff
        moved = moved + array
        if node.op_type in _RANGES:
            moved = np.clip(moved, *_RANGES[node.op_type])
        if means := _shape_of_means(node, inputs):
            error = roundoff * _NORMALIZATION * np.sqrt(inputs[0].size / np.prod(means))
            offset = _offset_of_means(node, inputs[0], array, means)
            moved = moved * (1 + error * self._draw(means)) + error * offset * self._draw(means)
            if CANCELLING_KEY in node.metadata_props:
                moved = _cancelled(node, inputs, moved, error, self._draw)
        finite = np.isfinite(array)
        return moved if finite.all() else np.where(finite, moved, array)

    def _arguments_moved(self, node: ir.Node, inputs: Sequence[Any], roundoff: float) -> list[Any]:
        """Return the arguments, each with a rounding error, except the exponent of a power."""
        error = roundoff * np.sqrt(_inner_terms(node, inputs))
        kept = inputs[1:] if node.op_type == "Pow" else []
        moved = inputs[: len(inputs) - len(kept)]
        return [*(a * (1 + error * self._draw(np.shape(a))) if _is_floating(a) else a for a in moved), *kept]

    def _quotient_moved(self, inputs: Sequence[Any], roundoff: float) -> list[Any]:
        """Return the inputs of QuantizeLinear, perturbed by a rounding error unless the division by the scale is exact.

        It is exact if the inverse of the scale, by which some kernels multiply, and the quotient are exact. Then ties
        are rounded to even.
        """
        x, scale = np.asarray(inputs[0]), np.asarray(inputs[1])
        exact = scale.size == 1 and np.float32(1 / scale) == 1 / scale
        rounded = np.float32(x / scale) != x / scale if exact else True
        return [np.where(rounded, x * (1 + roundoff * self._draw(x.shape)), x), *inputs[1:]]

    def _kernel_moved(self, node: ir.Node, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs of QuantizeLinear, perturbed by the part of a step that integer kernels may be off."""
        x, scale = np.asarray(inputs[0]), np.asarray(inputs[1])
        if scale.ndim == 1 and scale.size > 1:
            axis = node.attributes.get_int("axis", 1) % max(x.ndim, 1)
            scale = scale.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        part = _TABLE_STEP if _maker(node.inputs[0]) in _TABLES else _KERNEL_STEP
        together = self.rng.uniform(-0.5, 0.5)  # a kernel may break all ties the same way
        moved = x + part * self.times * scale * (together + self.rng.uniform(-1.0, 1.0, x.shape))
        if np.asarray(inputs[2] if len(inputs) > 2 else 0).dtype.itemsize > 1:  # one error per channel, and one for all
            for shape in ([n if axis == 1 else 1 for axis, n in enumerate(x.shape)], ()):
                moved = moved * (1 + _WIDE_MULTIPLIER * self.times * self.rng.uniform(-1.0, 1.0, shape))
        return [moved, *inputs[1:]]

    def _sum_size(self, node: ir.Node, inputs: list[Any], exact: Sequence[Any]) -> Array:
        """Return, for each element, the magnitude that the error of a sum is relative to.

        Recursive summation rounds each partial sum (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). For n
        terms with the sum y and the sum of squares q, the k-th partial sum is k·y/n plus a random walk of variance
        k·q/n. So the squares of all partial sums add up to n·(y²/3 + q/2).
        """
        terms, factor = _SUMS[node.op_type](node, inputs)
        squares = [a * a if _is_floating(a) else a for a in inputs]
        size = np.array(np.abs(super().results(node, squares)[0]))
        y = np.abs(np.asarray(exact[0]))
        size *= factor / 2
        size += y * y / 3
        size *= max(terms, 1.0)
        np.sqrt(size, out=size)
        size += y
        return size


def _maker(value: ir.Value | None) -> str:
    """Return the operator that computes a value, looking through operators that only move elements."""
    while value is not None and (node := value.producer()) is not None:
        if node.op_type not in MOVES:
            return node.op_type
        value = node.inputs[0]
    return ""


def _is_floating(array: Any) -> bool:
    return isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "fc"


def _in_range_of(dtype: np.dtype, moved: Any, exact: Any, rng: np.random.Generator) -> Any:
    """Return a result as a dtype may represent it.

    It overflows to infinity, may be flushed to 0 at random, and stays exact where the dtype has the number.
    """
    if not _is_floating(moved) or moved.dtype.kind == "c":
        return moved
    info, moved, exact = ml_dtypes.finfo(dtype), np.asarray(moved), np.asarray(exact)
    np.copyto(moved, exact, where=exact.astype(dtype) == exact)
    sizes = np.abs(moved)
    if (large := sizes > float(info.max)).any():
        np.copyto(moved, np.copysign(np.inf, moved), where=large)
    if (tiny := sizes < float(info.tiny)).any():
        np.copyto(moved, 0.0, where=tiny & (rng.random(moved.shape) < 0.5))
    return moved


# -- sums -------------------------------------------------------------------------------------------------------------

_Terms = Callable[[ir.Node, Sequence[Any]], tuple[float, float]]
"""Returns, for a node, how many terms its sums have, and a factor on the sum of their squares."""


def _of_last_axis(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    return inputs[0].shape[-1] if inputs[0].ndim else 1, 1.0


def _of_gemm(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    return inputs[0].shape[0 if node.attributes.get_int("transA", 0) else 1], 1.0


def _of_window(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    return float(np.prod(inputs[1].shape[1:])), 1.0


def _of_transposed_window(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    return float(inputs[1].shape[0] * np.prod(inputs[1].shape[2:])), 1.0


def _of_axes(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    given = inputs[1] if len(inputs) > 1 else None
    axes = [] if given is None else np.ravel(given).tolist()
    if not axes and node.attributes.get_int("noop_with_empty_axes") == 1:
        return 1.0, 1.0
    lengths = [inputs[0].shape[axis] for axis in axes] if axes else list(inputs[0].shape)
    return float(np.prod(lengths)), 1.0


def _of_mean(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    terms, _ = _of_axes(node, inputs)
    return terms, 1.0 / max(terms, 1.0)


def _of_pool(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    terms = float(np.prod(node.attributes.get_ints("kernel_shape", ()) or inputs[0].shape[2:]))
    return terms, 1.0 / max(terms, 1.0)


def _of_scan(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    return float(max(inputs[0].shape or (1,))), 1.0


def _of_equation(node: ir.Node, inputs: Sequence[Any]) -> tuple[float, float]:
    terms, _, kept = node.attributes.get_string("equation", "").replace(" ", "").partition("->")
    lengths: dict[str, int] = {}
    for labels, array in zip(terms.split(","), inputs, strict=False):
        if "." not in labels:
            lengths.update(zip(labels, array.shape, strict=False))
    return float(np.prod([n for label, n in lengths.items() if label not in kept] or [1])), 1.0


_SUMS: dict[str, _Terms] = {
    "MatMul": _of_last_axis, "Gemm": _of_gemm, "Conv": _of_window, "ConvTranspose": _of_transposed_window,
    "ReduceSum": _of_axes, "ReduceSumSquare": _of_axes, "ReduceL1": _of_axes, "ReduceMean": _of_mean,
    "AveragePool": _of_pool, "GlobalAveragePool": _of_pool, "CumSum": _of_scan, "Einsum": _of_equation,
}  # fmt: skip


def _inner_terms(node: ir.Node, inputs: Sequence[Any]) -> float:
    """Return how many terms the sums inside a composite operator have.

    Its arguments are perturbed for their rounding errors.
    """
    if node.op_type in ("LSTM", "GRU", "RNN"):
        return float(inputs[1].shape[-1] + inputs[2].shape[-1])
    return float(inputs[0].shape[-1]) if node.op_type == "Attention" else 1.0


def _shape_of_means(node: ir.Node, inputs: Sequence[Any]) -> list[int]:
    """Return the shape of a normalization's means over its first input, with dims of 1; [] for other operators."""
    if not inputs or not _is_floating(inputs[0]) or not inputs[0].size:
        return []
    rank = inputs[0].ndim
    axes: tuple[int, ...] = ()
    if node.op_type in ("LayerNormalization", "RMSNormalization"):
        axes = tuple(range(node.attributes.get_int("axis", -1) % rank, rank))
    elif node.op_type in ("InstanceNormalization", "GroupNormalization"):
        axes = tuple(range(2, rank))
    elif node.op_type == "MeanVarianceNormalization":
        axes = tuple(a % rank for a in node.attributes.get_ints("axes", (0, 2, 3)))
    elif node.op_type == "LpNormalization":
        axes = (node.attributes.get_int("axis", -1) % rank,)
    return [1 if axis in axes else length for axis, length in enumerate(inputs[0].shape)] if axes else []


def _cancelled(node: ir.Node, inputs: Sequence[Any], y: Array, error: float, draw: Callable[..., Array]) -> Array:
    """Return the result y of a normalization whose variance is E[x²] − E[x]², with this relative error of E[x²]."""
    x = inputs[0]
    channels = node.op_type == "GroupNormalization"
    first = 2 if channels else node.attributes.get_int("axis", -1) % x.ndim
    rows = x.reshape(len(x), node.attributes.get_int("num_groups", 1), -1) if channels else x
    axes = (2,) if channels else tuple(range(first, x.ndim))
    square, spread = np.mean(np.square(rows), axis=axes, keepdims=True), np.var(rows, axis=axes, keepdims=True)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    moved = np.maximum(spread + error * draw(square.shape) * square, 0)
    factor = np.broadcast_to(np.sqrt((spread + epsilon) / (moved + epsilon)), rows.shape).reshape(x.shape)
    bias = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.zeros(1)
    bias = bias.reshape(-1, *[1] * (x.ndim - 2)) if channels else bias
    return (y - bias) * factor + bias


def _offset_of_means(node: ir.Node, x: Array, y: Array, means: Sequence[int]) -> Array | float:
    """Return by how much the mean of x moves the result y of a normalization, relative to the error of that mean."""
    if node.op_type in ("RMSNormalization", "LpNormalization"):
        return 0.0
    axes = tuple(axis for axis, length in enumerate(means) if length == 1)
    size, deviation = np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True)), np.std(x, axis=axes, keepdims=True)
    result: Array = size / np.maximum(deviation, 1e-300) * np.sqrt(np.mean(np.square(y), axis=axes, keepdims=True))
    return result
