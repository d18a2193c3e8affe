"""Holds `__setstate__` of a TorchScript archive to putting data back, because it runs while the archive is loaded.

PyTorch's own classes have one (packed weights of quantized layers): attributes are assigned, parts of the state are
taken, and weights are packed. Nothing of that loops, recurs or computes; a body that does may go on for ever or take
all memory, and is not run before the archive is trusted.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

SETSTATE = "__setstate__"
_CALLS = 1000
"""Calls that one `__setstate__` may make, each of them counted as often as it is made."""
_JOINS = 4
"""Texts or lists that one `__setstate__` may put behind others: each may double what there is."""
_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AnnAssign, ast.Expr, ast.Return, ast.Pass, ast.If,
    ast.Tuple, ast.List, ast.Dict, ast.Attribute, ast.Subscript, ast.Name, ast.Constant, ast.Call, ast.UnaryOp,
    ast.USub, ast.expr_context,
)  # fmt: skip
"""What a body may be made of; branches, but no loops."""
_PLAIN = frozenset(("annotate", "unchecked_cast", "uninitialized", "int", "float", "bool", "str", "getattr"))
_OF_TORCH = frozenset(
    ("len", "size", "eq", "ne", "lt", "gt", "le", "ge", "__is__", "__isnot__", "__not__", "__and__", "__or__",
     "__contains__", "__getitem__", "append", "_set_item", "dim", "contiguous", "format", "add", "sub", "str",
     "quantize_per_tensor", "quantize_per_channel", "_empty_affine_quantized", "dequantize", "list", "device", "to")
)  # fmt: skip
"""Functions of torch that a body may call: none makes a tensor of a size that the file chooses without its data."""
_OPERATORS = {
    "quantized": (
        "prepack", "unpack", "prepack_fp16", "unpack_fp16", "make_quantized_cell_params",
        "make_quantized_cell_params_dynamic", "make_quantized_cell_params_fp16",
    ),
    "sparse": ("prepack", "unpack"),
    "prim": ("RaiseException", "unchecked_cast", "NumToTensor"),
    "mkldnn_prepacked": ("prepack",),
}  # fmt: skip
"""The ends of the names of `ops.namespace.name` that a body may call."""


def setstate_findings(codes: Iterable[str]) -> Iterator[str]:
    """Why the `__setstate__` of an archive may not be run, in words; nothing where there is none or it is harmless."""
    functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
    for code in codes:
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            if SETSTATE in code:
                yield f"has a {SETSTATE} that cannot be looked through"
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                functions[node.name].append(node)
    for function in functions.get(SETSTATE, []):
        left = [_CALLS, _JOINS]
        yield from _function_findings(function, functions, (), left)


def _function_findings(
    function: ast.FunctionDef,
    functions: Mapping[str, Sequence[ast.FunctionDef]],
    path: tuple[str, ...],
    left: list[int],
) -> Iterator[str]:
    if function.name in path:
        yield f"has a {SETSTATE} that calls itself"
        return
    for statement in function.body:
        for node in ast.walk(statement):
            if not isinstance(node, _NODES):
                yield f"has a {SETSTATE} with more than assignments and calls ({type(node).__name__})"
                return
            if isinstance(node, ast.Call):
                left[0] -= 1
                if left[0] < 0:
                    yield f"has a {SETSTATE} that makes more than {_CALLS} calls"
                    return
                left[1] -= _joined_values(node)
                if left[1] < 0:
                    yield f"has a {SETSTATE} that joins more than {_JOINS} texts, lists or numbers that it computes"
                    return
                yield from _call_findings(node, functions, (*path, function.name), left)


def _joined_values(call: ast.Call) -> int:
    """How many values a call puts behind another one; those that stand in the code make nothing large."""
    parts = _dotted_name(call.func)
    if parts not in (["torch", "add"], ["torch", "format"]):
        return 0
    computed = [a for a in call.args if not isinstance(a.operand if isinstance(a, ast.UnaryOp) else a, ast.Constant)]
    return max(0, len(computed) - 1)


def _call_findings(
    call: ast.Call, functions: Mapping[str, Sequence[ast.FunctionDef]], path: tuple[str, ...], left: list[int]
) -> Iterator[str]:
    parts = _dotted_name(call.func)
    if parts[:1] == ["torch"] and len(parts) == 2 and parts[1] in _OF_TORCH:
        return
    if parts[:1] == ["ops"] and len(parts) == 3:
        if not parts[2].endswith(_OPERATORS.get(parts[1], ("\0",))):
            yield f"has a {SETSTATE} that calls ops.{parts[1]}.{parts[2]}"
        return
    if len(parts) == 1 and parts[0] in _PLAIN:
        return
    name = parts[-1] if parts else ""
    called = functions.get(name, [])
    if not called and name not in ("unpack", SETSTATE, "__new__"):  # of packed weights, which C++ puts back
        yield f"has a {SETSTATE} that calls {'.'.join(parts) or 'what is computed'}"
    for function in called:
        yield from _function_findings(function, functions, path, left)


def _dotted_name(node: ast.expr) -> list[str]:
    """`a.b.c` taken apart; of anything else before a dot only what comes behind it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif parts:
        parts.append("")
    return parts[::-1]
