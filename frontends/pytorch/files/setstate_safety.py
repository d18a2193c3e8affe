"""Restricts `__setstate__` of a TorchScript archive to restoring data, because it runs while the archive is loaded.

PyTorch's own classes have one (packed weights of quantized layers): attributes are assigned, parts of the state are
read, and weights are packed. None of this loops, recurses or computes. A body that does may run forever or use all
memory, and is not run unless the archive is trusted.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from convert import limits
from convert.errors import ResourceLimit

from .script_tokens import script_tokens

SETSTATE = "__setstate__"
_CALLS = 1000
"""Maximum number of calls that one `__setstate__` makes, including repeated ones."""
_JOINS = 4
"""Maximum number of concatenations of strings or lists in one `__setstate__`: each may double the size."""
_DEPTH = 50
"""Maximum nesting of calls in one `__setstate__`."""
_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AnnAssign, ast.Expr, ast.Return, ast.Pass, ast.If,
    ast.Tuple, ast.List, ast.Dict, ast.Attribute, ast.Subscript, ast.Name, ast.Constant, ast.Call, ast.UnaryOp,
    ast.USub, ast.expr_context,
)  # fmt: skip
"""Statements and expressions that a body may contain; branches, but no loops."""
_PLAIN = frozenset(("annotate", "unchecked_cast", "uninitialized", "int", "float", "bool", "str", "getattr"))
_OF_TORCH = frozenset(
    ("len", "size", "eq", "ne", "lt", "gt", "le", "ge", "__is__", "__isnot__", "__not__", "__and__", "__or__",
     "__contains__", "__getitem__", "append", "_set_item", "dim", "contiguous", "format", "add", "sub", "str",
     "quantize_per_tensor", "quantize_per_channel", "_empty_affine_quantized", "dequantize", "list", "device", "to")
)  # fmt: skip
"""Functions of torch that a body may call: none creates a tensor whose size the file chooses without its data."""
_OPERATORS = {
    "quantized": (
        "prepack", "unpack", "prepack_fp16", "unpack_fp16", "make_quantized_cell_params",
        "make_quantized_cell_params_dynamic", "make_quantized_cell_params_fp16",
    ),
    "sparse": ("prepack", "unpack"),
    "prim": ("RaiseException", "unchecked_cast", "NumToTensor"),
    "mkldnn_prepacked": ("prepack",),
}  # fmt: skip
"""The suffixes of `ops.namespace.name` that a body may call."""
_ROOTS = frozenset(("torch", "ops"))
_KNOWN = _PLAIN | _ROOTS | {"__torch__"}
"""Names with a fixed meaning: a variable with such a name would replace the function."""
_ASKED = (SETSTATE, "__getstate__", "__init__", "__new__")
"""Methods that PyTorch calls implicitly, during loading or later."""


def setstate_findings(codes: Iterable[str]) -> Iterator[str]:
    """Yield why the `__setstate__` of an archive may not be run; nothing if there is none or it is harmless.

    Raises `ResourceLimit` if more code than `TORCHSCRIPT_SETSTATE_BYTES` is involved.
    """
    codes = list(codes)
    if not any(SETSTATE in code for code in codes):
        return
    functions = _Functions(codes)
    for name in (SETSTATE, *functions.implied_names()):
        for function in functions.named(name):
            work = _work_of_body(function, functions, {name: None})
            if why := work.finding or _too_much(work):
                yield f"has a {SETSTATE}{'' if name == SETSTATE else f', which may call a {name},'} that {why}"
    if functions.unread:
        yield f"has a {SETSTATE} that cannot be looked through"


class _Functions:
    """The functions of an archive by name; a file is parsed when one is requested that it may define."""

    def __init__(self, codes: Iterable[str]) -> None:
        self._waiting = [(code, _defined_names(code, "def")) for code in codes]
        self.defined = set[str]().union(*(names for _, names in self._waiting))
        self.classes = set[str]().union(*(_defined_names(code, "class") for code in codes))
        self._found: dict[str, list[ast.FunctionDef]] = defaultdict(list)
        self._size = 0
        self.unread = False
        """Whether a file that may define the requested function is not Python."""

    def implied_names(self) -> list[str]:
        """Return the names of functions that run implicitly: indexing, conditions, number conversions."""
        return sorted(n for n in self.defined if n.startswith("__") and n.endswith("__") and n not in _ASKED)

    def named(self, name: str) -> list[ast.FunctionDef]:
        """Return every function of this name. Raises `ResourceLimit`."""
        defining = [code for code, names in self._waiting if name in names]
        if defining:
            self._waiting = [(code, names) for code, names in self._waiting if name not in names]
        for code in defining:
            self._parse(code)
        return self._found.get(name, [])

    def _parse(self, code: str) -> None:
        self._size += len(code)
        if self._size > limits.TORCHSCRIPT_SETSTATE_BYTES:
            most = f"{limits.TORCHSCRIPT_SETSTATE_BYTES:,}"
            raise ResourceLimit(
                f"more than {most} bytes of TorchScript have to do with what a {SETSTATE} does, and are not looked "
                "through",
                hint="if you trust the file, add --trust",
            )
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.unread = True
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                self._found[node.name].append(node)


def _defined_names(code: str, keyword: str) -> set[str]:
    """Return the names after "def" or "class"; every word if the code is invalid."""
    try:
        tokens = script_tokens(code)
    except ValueError:
        return set(re.findall(r"\w+", code))
    return {name for word, name in itertools.pairwise(tokens) if word == keyword}


@dataclass(frozen=True)
class _Work:
    """The calls and concatenations of a body, including its callees, and the reason why it may not be run, if any."""

    calls: int = 0
    joins: int = 0
    finding: str = ""


def _too_much(work: _Work) -> str:
    if work.calls > _CALLS:
        return f"makes more than {_CALLS} calls"
    return f"joins more than {_JOINS} texts, lists or numbers that it computes" if work.joins > _JOINS else ""


def _work_of_body(function: ast.FunctionDef, functions: _Functions, known: dict[str, _Work | None]) -> _Work:
    """Analyse a body once. `known` has the total for functions of a name, or None while it is being computed."""
    calls = joins = 0
    called_on = set[ast.AST]()
    for node in itertools.chain.from_iterable(map(ast.walk, [function.args, *function.body])):
        if not isinstance(node, _NODES):
            return _Work(finding=f"has more than assignments and calls ({type(node).__name__})")
        if (name := _name_given(node)) in _KNOWN:
            return _Work(finding=f"gives the name {name} to something else")
        if isinstance(node, ast.Name) and node.id in _ROOTS and node not in called_on:
            return _Work(finding=f"gives {node.id} another name")
        if isinstance(node, ast.Call):
            called_on.add(_root(node.func))
            called = _work_of_call(node, functions, known)
            calls, joins = calls + 1 + called.calls, joins + _joined_values(node) + called.joins
            done = _Work(calls, joins, called.finding)
            if why := called.finding or _too_much(done):
                return _Work(finding=why)
    return _Work(calls, joins)


def _joined_values(call: ast.Call) -> int:
    """Return how many values a call concatenates; values in the code itself do not grow."""
    parts = _dotted_name(call.func)
    if parts not in (["torch", "add"], ["torch", "format"]):
        return 0
    computed = [a for a in call.args if not isinstance(a.operand if isinstance(a, ast.UnaryOp) else a, ast.Constant)]
    return max(0, len(computed) - 1)


def _work_of_call(call: ast.Call, functions: _Functions, known: dict[str, _Work | None]) -> _Work:
    parts = _dotted_name(call.func)
    if parts[:1] == ["torch"]:
        is_known = len(parts) == 2 and parts[1] in _OF_TORCH
    elif parts[:1] == ["ops"]:
        is_known = len(parts) == 3 and parts[2].endswith(_OPERATORS.get(parts[1], ("\0",)))
    else:  # functions of the archive are called by dotted names; a bare name is a builtin of PyTorch, or a variable
        is_known = len(parts) == 1 and parts[0] in _PLAIN
    if is_known:
        return _Work()
    name = parts[-1] if len(parts) > 1 and parts[0] not in _ROOTS else ""
    if name in known:
        return known[name] or _Work(finding="calls itself")
    bodies = functions.named(name)
    if parts[:1] == ["__torch__"]:
        bodies = bodies + (functions.named("__init__") if name in functions.classes else [])
    # it may be a method of a tensor, a list or a string, regardless of the archive's own functions
    elif name and _is_method_of_values(name):
        bodies = []
    if not bodies and name not in ("unpack", SETSTATE, "__new__"):  # a method of packed weights, which C++ restores
        return _Work(finding=f"calls {'.'.join(parts) or 'what is computed'}")
    if sum(work is None for work in known.values()) > _DEPTH:
        return _Work(finding=f"calls functions more than {_DEPTH} deep")
    known[name] = None
    works = [_work_of_body(body, functions, known) for body in bodies]
    finding = next((work.finding for work in works if work.finding), "")
    known[name] = found = _Work(sum(work.calls for work in works), sum(work.joins for work in works), finding)
    return found


def _name_given(node: ast.AST) -> str:
    """Return the name that an argument or a variable gets, or ""."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else ""


def _is_method_of_values(name: str) -> bool:
    """Return whether PyTorch has an operator of this name, which values have as a method."""
    import torch

    return not name.startswith("__") and hasattr(torch.ops.aten, name)


def _root(node: ast.expr) -> ast.expr:
    """Return the innermost expression of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _dotted_name(node: ast.expr) -> list[str]:
    """Return the parts of `a.b.c`; for another expression before a dot, only the parts after it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif parts:
        parts.append("")
    return parts[::-1]
