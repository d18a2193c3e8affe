"""Queries of a TorchScript program about tensors (size, dtype, value), and operators that compute nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported

from ..common.complexes import ComplexPair
from ..common.quantization import quantized_dtype, scheme_of
from ..common.sizes import size, vector
from ..common.values import cast, mark_scalar, onnx_dtype, torch_dtype
from ..rules import _scalar_types as scalar_types
from .context import Walk
from .evaluate import as_python
from .values import NUMBERS, List, Number, OptionalValue, Sequence, Tensor, is_known, read, read_content

IGNORED = frozenset(
    (
        "prim::Print",
        "aten::warn",
        "aten::_assert",
        "aten::_assert_async",
        "aten::_assert_tensor_metadata",
        "aten::set_grad_enabled",
        "aten::manual_seed",
        "prim::record_function",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "aten::_assert_scalar",
    )
)
"""Operators that check, print or record something."""

Inspection = Callable[[Walk, Any, list[Any]], Any]


def _read_real(walk: Walk, tensor: Tensor) -> ir.Value | torch.Tensor:
    """Return a tensor's content; for a complex tensor in the graph the real part, which has the same sizes."""
    content: Any = read_content(walk.memory, tensor)
    return content.real if isinstance(content, ComplexPair) else content


def dims_of(walk: Walk, tensor: Tensor) -> list[Any]:
    """Return the sizes of a tensor: ints if they are static, else run-time numbers.

    Raises `Unsupported` if the number of dims is unknown.
    """
    content = _read_real(walk, tensor)
    if isinstance(content, torch.Tensor):
        return list(content.shape)
    if content.shape is None:
        raise Unsupported("the number of dims of this tensor is not known")
    return [_dim_size(walk, tensor, content, i) for i in range(len(content.shape))]


def _dim_size(walk: Walk, tensor: Tensor, content: ir.Value, dim: int) -> Any:
    found = size(walk.g, content, dim)
    if isinstance(found, int):
        return found
    example = tensor.state.example
    return Number(found, int, None if example is None or dim >= example.dim() else int(example.shape[dim]))


def _size(walk: Walk, node: Any, args: list[Any]) -> Any:
    with walk.g.at(walk.location(node)):
        if len(args) == 1:
            return List(tuple(dims_of(walk, args[0])), walk.memory.scope)
        rank = rank_of(walk, args[0])
        if not isinstance(args[1], int) or not -rank <= args[1] < rank:
            raise Unsupported(f"the size of dim {args[1]} of a tensor with {rank} dims")
        content = _read_real(walk, args[0])
        if isinstance(content, torch.Tensor):
            return content.shape[args[1]]
        return _dim_size(walk, args[0], content, args[1] % rank)


def rank_of(walk: Walk, tensor: Tensor) -> int:
    """Return the number of dims. Raises `Unsupported` if it is not known."""
    content = _read_real(walk, tensor)
    if isinstance(content, torch.Tensor):
        return content.dim()
    if content.shape is None:
        raise Unsupported("the number of dims of this tensor is not known")
    return len(content.shape)


def _length(walk: Walk, node: Any, args: list[Any]) -> Any:
    return _size(walk, node, [args[0], 0]) if isinstance(args[0], Tensor) else NotImplemented


def _numel(walk: Walk, node: Any, args: list[Any]) -> Any:
    content = _read_real(walk, args[0])
    if isinstance(content, torch.Tensor):
        return content.numel()
    if content.shape is not None and content.shape.is_static():
        return int(np.prod(content.shape.numpy(), dtype=np.int64))
    example = args[0].state.example
    with walk.g.at(walk.location(node)):
        return Number(mark_scalar(walk.g.Size(content)), int, None if example is None else example.numel())


def dtype_of(walk: Walk, tensor: Tensor) -> torch.dtype:
    """Return the dtype of a tensor."""
    content: Any = read_content(walk.memory, tensor)
    if isinstance(content, ComplexPair):
        return torch_dtype(walk.g, content.real).to_complex()
    scheme = scheme_of(content)
    if scheme is not None:
        return quantized_dtype(scheme.dtype)
    return content.dtype if isinstance(content, torch.Tensor) else torch_dtype(walk.g, content)


def _dtype(walk: Walk, node: Any, args: list[Any]) -> Any:
    found = dtype_of(walk, args[0])
    return next(number for number, dtype in scalar_types().items() if dtype == found)


def _dtype_test(test: Callable[[torch.dtype], bool]) -> Inspection:
    return lambda walk, node, args: test(dtype_of(walk, args[0])) if isinstance(args[0], Tensor) else NotImplemented


def _constant_answer(answer: Any) -> Inspection:
    return lambda walk, node, args: answer


def _requires_grad(walk: Walk, node: Any, args: list[Any]) -> Any:
    """Return True for trainable weights, as in training, so that the program takes no kernels fused for inference."""
    content = read(walk.memory, args[0])
    return args[0] in walk.trainable and isinstance(content, torch.Tensor) and content.is_floating_point()


def _is_contiguous(walk: Walk, node: Any, args: list[Any]) -> Any:
    """Answer by the strides that operators give to the example: in a graph the answer affects speed only.

    Raises `Unsupported` if the strides are not known.
    """
    example = args[0].state.example
    if example is None or len(args) > 1:
        raise Unsupported("whether a tensor is contiguous, where its strides are not known")
    return example.is_contiguous()


def _first_argument(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0]


def _unwrap_value(walk: Walk, node: Any, args: list[Any]) -> Any:
    return args[0].value if isinstance(args[0], OptionalValue) else args[0]


def _differs(args: list[Any]) -> Any:
    """Return whether two values are not the same object; for an optional and None, whether the optional has a value."""
    for one, other in (args, args[::-1]):
        if isinstance(one, OptionalValue) and other is None:
            return one.present
    return args[0] is not args[1]


def _negate(walk: Walk, node: Any, truth: Any) -> Any:
    if not isinstance(truth, Number):
        return not truth
    with walk.g.at(walk.location(node)):
        return Number(mark_scalar(walk.g.Not(truth.value)), bool)


def _number_inspection(kind: type | None) -> Inspection:
    """Return a rule for the value of a tensor with one element."""

    def inspect(walk: Walk, node: Any, args: list[Any]) -> Any:
        if not isinstance(args[0], Tensor):
            return NotImplemented
        content = read_content(walk.memory, args[0])
        if isinstance(content, torch.Tensor):
            found = content.item()
            return found if kind is None else kind(found)
        return number_of(walk, content, kind, node)

    return inspect


def _truth(walk: Walk, node: Any, args: list[Any]) -> Any:
    """bool(tensor). The question whether a mask is causal is answered with no, because attention asks it only to choose
    a faster kernel.

    With that answer the mask is added unchanged, which gives the same result for a causal mask.
    """
    if _asks_for_causal_mask(node):
        return False
    return _number_inspection(bool)(walk, node, args)


def _asks_for_causal_mask(node: Any) -> bool:
    """Return whether the node is `bool((mask == causal_comparison).all())` in torch.nn's `_detect_is_causal_mask`."""
    every = node.inputsAt(0).node()
    equal = every.inputsAt(0).node() if every.kind() == "aten::all" else every
    where = node.sourceRange()
    return equal.kind() == "aten::eq" and "torch/nn/modules/transformer.py" in where and "make_causal = " in where


def _known_sizes(walk: Walk, tensor: Tensor) -> list[Any]:
    """Return the sizes, names of dims, or None; raises `Unsupported` if their number is not known."""
    content = _read_real(walk, tensor)
    rank_of(walk, tensor)
    return list(content.shape) if isinstance(content, torch.Tensor) else list(walk.g.shape(content))


def _equal(walk: Walk, node: Any, args: list[Any]) -> Any:
    """torch.equal. The question whether query and key are equal is answered with no, because attention asks it only to
    choose a shorter path.

    All paths give the same result. Raises `Unsupported` for sizes that may differ at run time.
    """
    if args[0] is args[1]:
        return True
    if is_known(tuple(args)):
        return torch.equal(*map(as_python, args))
    if "multi_head_attention_forward" in node.sourceRange():
        return False
    g, sizes = walk.g, [_known_sizes(walk, t) for t in args]
    pairs = list(zip(*sizes, strict=False))
    if len(sizes[0]) != len(sizes[1]) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        return False
    if any(a is None or a != b for a, b in pairs):
        raise Unsupported("torch.equal of tensors whose sizes may differ when the model runs")
    with g.at(walk.location(node)):
        same = g.Equal(*(walk.value(read_content(walk.memory, t)) for t in args))
        differ = g.ReduceSum(cast(g, g.Not(same), ir.DataType.INT64), keepdims=0)
        return Number(mark_scalar(g.Equal(differ, 0)), bool)


def number_of(walk: Walk, content: ir.Value, kind: type | None, node: Any) -> Number:
    """Return the element of a tensor in the graph as a run-time number of `kind`, or else of the tensor's own kind."""
    if isinstance(content, ComplexPair):
        raise Unsupported("the value of a complex tensor as a number")
    g, dtype = walk.g, torch_dtype(walk.g, content)
    kind = kind or (float if dtype.is_floating_point else bool if dtype == torch.bool else int)
    with g.at(walk.location(node)):
        flat = (
            content
            if content.shape is not None and len(content.shape) == 0
            else g.Reshape(content, g.const(np.array([], dtype=np.int64)))
        )
        found = cast(g, flat, NUMBERS[kind])
        # Identity, because the tensor itself still promotes dtypes as a tensor.
        return Number(mark_scalar(g.Identity(found) if found is content else found), kind)


def _tensor_of_number(walk: Walk, node: Any, args: list[Any]) -> Any:
    if isinstance(args[0], Number):
        # The tensor needs an example of its own, because its dtype matters.
        dtypes = {int: torch.int64, float: torch.float64, bool: torch.bool}
        return walk.tensor(args[0].value, torch.empty((), dtype=dtypes[args[0].kind], device="meta"))
    return walk.tensor(torch.tensor(args[0], dtype=torch.float64 if isinstance(args[0], float) else None))


def _tensor_of_list(walk: Walk, node: Any, args: list[Any]) -> Any:
    """torch.tensor of numbers, some of them known at run time only."""
    if isinstance(args[0], Tensor):
        return NotImplemented
    dtype = scalar_types()[args[1]] if len(args) > 1 and isinstance(args[1], int) else None
    # TorchScript makes a tensor of its numbers, with floats in the default dtype, and then casts it.
    own = _dtype_of_numbers(args[0])
    if is_known(args[0]):
        return walk.tensor(torch.tensor(as_python(args[0]), dtype=own).to(dtype or own))
    with walk.g.at(walk.location(node)):
        content = cast(walk.g, _stack_numbers(walk, args[0], own), dtype or own)
    rank = 0 if isinstance(args[0], Number) else len(content.shape or ())
    return walk.tensor(content, torch.empty((1,) * rank, dtype=dtype or _dtype_of_numbers(args[0]), device="meta"))


def _stack_numbers(walk: Walk, value: Any, dtype: torch.dtype) -> ir.Value:
    g = walk.g
    if isinstance(value, Number):
        return g.Identity(cast(g, value.value, dtype))  # it is a tensor, and promotes dtypes like one
    if isinstance(value, List) and isinstance(value.state, tuple):
        if dtype == torch.int64 and all(isinstance(v, (int, Number)) for v in value.state):
            return vector(g, [v.value if isinstance(v, Number) else v for v in value.state])
        return g.Concat(*(g.Unsqueeze(_stack_numbers(walk, v, dtype), [0]) for v in value.state), axis=0)
    if isinstance(value, List) and value.state.item is not Tensor:
        # One item is appended and cut off again, because runtimes do not concatenate an empty sequence.
        longer = g.SequenceInsert(value.state.value, g.const(0, value.state.dtype))
        joined = g.ConcatFromSequence(longer, axis=0, new_axis=1)
        row = g.Slice(g.facts(joined, value.state.dtype, [None]), np.array([0]), np.array([-1]), np.array([0]))
        return cast(g, g.facts(row, value.state.dtype, [None]), dtype)
    if isinstance(value, (bool, int, float)):
        return g.const(value, onnx_dtype(dtype))
    raise Unsupported("a tensor made of a list whose length is not known")


def _dtype_of_numbers(value: Any) -> torch.dtype:
    floating = torch.get_default_dtype()
    if isinstance(value, List) and isinstance(value.state, Sequence):
        kinds: dict[type, torch.dtype] = {float: floating, bool: torch.bool}
        return kinds.get(value.state.item, torch.int64)
    if isinstance(value, List) and not isinstance(value.state, Sequence):
        dtypes = [_dtype_of_numbers(v) for v in value.state]
        return floating if floating in dtypes or not dtypes else dtypes[0]
    kind = value.kind if isinstance(value, Number) else type(value)
    return floating if kind is float else torch.bool if kind is bool else torch.int64


INSPECTIONS: dict[str, Inspection] = {
    "aten::size": _size,
    "aten::sym_size": _size,
    "aten::len": _length,
    "aten::numel": _numel,
    "prim::shape": _size,
    "aten::dim": lambda walk, node, args: rank_of(walk, args[0]),
    "aten::ndimension": lambda walk, node, args: rank_of(walk, args[0]),
    "prim::dtype": _dtype,
    "prim::device": _constant_answer(torch.device("cpu")),
    "prim::layout": _constant_answer(torch.strided),
    "prim::is_cuda": _constant_answer(False),
    "prim::is_cpu": _constant_answer(True),
    "prim::is_sparse": _constant_answer(False),
    "prim::is_quantized": lambda walk, node, args: str(dtype_of(walk, args[0])).startswith("torch.q"),
    "prim::is_mkldnn": _constant_answer(False),
    "prim::is_meta": _constant_answer(False),
    "prim::is_mps": _constant_answer(False),
    "prim::is_nested": _constant_answer(False),
    "prim::is_vulkan": _constant_answer(False),
    "prim::is_xla": _constant_answer(False),
    "prim::is_xpu": _constant_answer(False),
    "prim::is_sparse_csr": _constant_answer(False),
    "prim::requires_grad": _requires_grad,
    "aten::requires_grad": _requires_grad,
    "aten::is_grad_enabled": _constant_answer(True),
    # nn.TransformerEncoder asks this before it nests tensors, which it does only without gradients.
    "aten::_nested_tensor_from_mask_left_aligned": _constant_answer(False),
    "aten::is_autocast_enabled": _constant_answer(False),
    "aten::is_autocast_cpu_enabled": _constant_answer(False),
    "aten::is_inference": _constant_answer(True),
    "prim::is_compiling": _constant_answer(False),
    "aten::is_scripting": _constant_answer(True),
    "aten::is_contiguous": _is_contiguous,
    "aten::is_floating_point": _dtype_test(lambda d: d.is_floating_point),
    "aten::is_complex": _dtype_test(lambda d: d.is_complex),
    "aten::is_signed": _dtype_test(lambda d: d.is_signed),
    "aten::equal": _equal,
    "aten::item": _number_inspection(None),
    "aten::Int": _number_inspection(int),
    "aten::Float": _number_inspection(float),
    "aten::Bool": _truth,
    "aten::IntImplicit": _number_inspection(int),
    "aten::FloatImplicit": _number_inspection(float),
    "aten::ScalarImplicit": _number_inspection(None),
    "aten::is_nonzero": _number_inspection(bool),
    "aten::_local_scalar_dense": _number_inspection(None),
    "prim::NumToTensor": _tensor_of_number,
    "aten::tensor": _tensor_of_list,
    "aten::as_tensor": _tensor_of_list,
    "prim::data": _first_argument,
    "aten::cpu": _first_argument,
    "prim::unchecked_cast": _unwrap_value,
    "prim::unchecked_unwrap_optional": _unwrap_value,
    "aten::_unwrap_optional": _unwrap_value,
    "aten::wait": _first_argument,
    "prim::profile": _first_argument,
    "prim::annotate": _first_argument,
    "aten::requires_grad_": _first_argument,
    "aten::__is__": lambda walk, node, args: _negate(walk, node, _differs(args)),
    "aten::__isnot__": lambda walk, node, args: _differs(args),
}
"""The rules for queries; one that returns NotImplemented leaves the operator to the next table."""
