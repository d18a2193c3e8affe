"""Writes a TorchScript archive: the captured program as a script, whose sizes are those of its inputs."""

from __future__ import annotations

import ast
import operator
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch import fx
from torch.export import ExportedProgram

from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.options import Options

from ..state import Buffer
from ..torch_internals import (
    OpOverload,
    PyTorchFileReader,
    PyTorchFileWriter,
    assert_true,
    guard_texts,
    pytree,
    schema_of,
)
from .exported import captured, quiet

_DECIDED = "TorchScript: a branch, loop or scan that only the run decides"
GAPS = {"NonMaxSuppression": "a loop of as many rounds as there are boxes, for which TorchScript has no form here"}
LIMITS = {
    **dict.fromkeys(("If", "Loop", "Scan"), _DECIDED),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), f"{_DECIDED}: other cells than PyTorch's own, of steps that are not known"),
    "SequenceInsert": f"{_DECIDED}: a place that is computed at run time",
}
"""Limits of the format in `convert ops`, in addition to the limits of programs."""

_FIX = "--to torch writes it as an exported program"
_ON_SIZES: dict[Any, Callable[..., Any]] = {
    torch.sym_max: max,
    torch.sym_min: min,
    torch.sym_float: float,
    torch.sym_int: int,
    **{f: f for f in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv,
                      operator.neg, operator.pow, operator.getitem)},
}  # fmt: skip
"""Functions on sizes and their TorchScript names."""

_PLACES = ("device", "layout", "pin_memory")
"""Arguments that name a device. New tensors are created on the weights' device, which the user chooses."""

_CLASSES = re.compile(rb"code/__torch__/(.+?)(?:/___torch_mangle_(\d+))?\.py")
"""A class file in the archive, and the number that PyTorch adds to classes of the same name."""


def write_script(model: ir.Model, path: Path, options: Options, report: Report, buffers: Sequence[Buffer] = ()) -> None:
    """Write `model` to `path`. Raises `Unsupported`."""
    module = script_of(captured(model, options, report, "a TorchScript archive", buffers))
    # PyTorch writes a path piece by piece, and any other file from one piece in memory.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".pt") as file, path.open("wb") as out:
        torch.jit.save(module, file.name)
        _copy_records(file.name, out)


def script_of(program: ExportedProgram) -> torch.jit.ScriptModule:
    """Return the program as a script that returns a dict of its outputs. Raises `Unsupported` for what TorchScript
    lacks.
    """
    for name in (*program.state_dict, *program.constants):
        if not name.isascii():
            raise Unsupported(
                f"a weight's name beyond ASCII, {name!r}, which PyTorch writes and cannot read", hint=_FIX
            )
    module = program.module(check_guards=False)
    graph = fx.Graph()
    found: Any = graph.graph_copy(module.graph, {})
    graph.output(pytree.tree_unflatten(found, program.call_spec.out_spec))
    for node in list(graph.nodes):
        if isinstance(node.target, OpOverload) and node.target.overloadpacket in _ASSERTIONS:
            graph.erase_node(node)
    graph.eliminate_dead_code()  # nodes that only assertions read; the operators check these sizes
    for node in list(graph.nodes):
        _as_scripted(graph, node)
    _assert_guards(graph, program)
    with quiet():
        try:
            return torch.jit.script(fx.GraphModule(module, graph, "Network"))
        except (RuntimeError, TypeError) as error:
            text = " ".join(str(error).split())[:300]
            raise Unsupported(f"TorchScript does not take what PyTorch captured: {text}", hint=_FIX) from error


def _as_scripted(graph: fx.Graph, node: fx.Node) -> None:
    """Rewrite a call for TorchScript, with named arguments, because it resolves overloads by the arguments given."""
    if node.op == "placeholder":
        node.type = torch.Tensor
    if node.op != "call_function":
        return
    if isinstance(node.target, OpOverload):
        packet, names = node.target.overloadpacket, [a.name for a in schema_of(node.target).arguments]
        if packet is torch.ops.aten.sym_size:
            node.op, node.target = "call_method", "size"
            return
        named = dict(zip(names[1:], node.args[1:], strict=False)) | node.kwargs
        node.args, node.kwargs = node.args[:1], {k: v for k, v in named.items() if k not in _PLACES}
        node.target = packet
        if packet is torch.ops.aten.item:
            _as_number(graph, node)
    elif node.target in _ON_SIZES:
        node.target = _ON_SIZES[node.target]
    else:
        name = getattr(node.target, "__name__", str(node.target))
        raise Unsupported(f"TorchScript has no form for {name} in what PyTorch captured", hint=_FIX)


_ASSERTIONS = (
    torch.ops.aten._assert_scalar, torch.ops.aten._assert_tensor_metadata, torch.ops.aten._assert_async,
    torch.ops.aten.sym_constrain_range, torch.ops.aten.sym_constrain_range_for_size,
)  # fmt: skip


def _as_number(graph: fx.Graph, node: fx.Node) -> None:
    """Wrap `item`, which returns a number of any kind, because TorchScript does not accept that as a size."""
    kind = float if isinstance(node.meta.get("val"), (float, torch.SymFloat)) else int
    with graph.inserting_after(node):
        number = graph.call_function(kind, (node,))
    node.replace_all_uses_with(number, delete_user_cb=lambda user: user is not number)


_CONDITIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.USub: operator.neg, ast.And: operator.and_, ast.Or: operator.or_, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
"""The functions in guards on sizes, besides minimum and maximum of several."""


def _assert_guards(graph: fx.Graph, program: ExportedProgram) -> None:
    """Add the size conditions of the program to the script as assertions, as the program's own module checks them.

    Raises `Unsupported` for one in another form than PyTorch prints (`ExportedProgram._guards_code`).
    """
    inputs = {str(node.target): node for node in graph.nodes if node.op == "placeholder"}
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        for text in guard_texts(program):
            holds = _emit_condition(graph, inputs, ast.parse(text, mode="eval").body, text)
            graph.call_function(assert_true, (holds, f"the program does not hold for these sizes: {text}"))


def _emit_condition(graph: fx.Graph, inputs: dict[str, fx.Node], tree: ast.expr, text: str) -> Any:
    def part(inner: ast.expr) -> Any:
        return _emit_condition(graph, inputs, inner, text)

    def joined(kind: ast.AST, values: Sequence[Any]) -> Any:
        return reduce(lambda a, b: graph.call_function(_CONDITIONS[type(kind)], (a, b)), values)

    match tree:
        case ast.Constant(value=int(number)):
            return number
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=ast.Subscript(slice=ast.Constant(value=str(name))), attr="size")),
            slice=ast.Constant(value=int(dim)),
        ) if name in inputs:
            return graph.call_method("size", (inputs[name], dim))
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _CONDITIONS:
            return joined(kind, [part(left), part(right)])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return graph.call_function(operator.neg, (part(operand),))
        case ast.BoolOp(op=kind, values=values):
            return joined(kind, [part(v) for v in values])
        case ast.Compare(left=left, ops=[kind], comparators=[right]) if type(kind) in _CONDITIONS:
            return joined(kind, [part(left), part(right)])
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=values):
            extreme = max if name == "max" else min
            return reduce(lambda a, b: graph.call_function(extreme, (a, b)), [part(v) for v in values])
    raise Unsupported(f"TorchScript has no form for the condition on sizes {text}", hint=_FIX)


def _copy_records(file: str, out: Any) -> None:
    """Copy the archive without what differs between runs: source-line notes, and numbers of classes.

    Weights are copied one after another.
    """
    reader = PyTorchFileReader(file)
    names = [n for n in reader.get_all_records() if not n.endswith(".debug_pkl") and not n.startswith(".data/")]
    code = {name: reader.get_record(name) for name in names if name.startswith("code/")}
    pickles = {name: reader.get_record(name) for name in names if name.endswith(".pkl")}
    renamed = _class_names(code | pickles)
    writer = PyTorchFileWriter(out)
    for name in names:
        if name not in code and name not in ("version", "byteorder"):
            content = renamed(pickles[name]) if name in pickles else reader.get_record(name)
            writer.write_record(name, content, len(content))
    for name, content in sorted((renamed(name.encode()).decode(), renamed(text)) for name, text in code.items()):
        writer.write_record(name, content, len(content))
    writer.write_end_of_file()


def _class_names(records: Mapping[str, bytes]) -> Callable[[bytes], bytes]:
    """Return a function that renumbers classes of the same name, in any text, in the order of the archive.

    PyTorch counts them per process, and the first has no number; so numbers depend on what was scripted before.
    """
    files = [match for name in records if (match := _CLASSES.fullmatch(name.encode()))]
    bases = sorted({match[1].replace(b"/", b".") for match in files}, key=len, reverse=True)
    known = b"|".join(re.escape(base).replace(rb"\.", rb"[./]") for base in bases)
    used = re.compile(rb"(__torch__[./])(" + known + rb")(?:([./])___torch_mangle_(\d+))?(?=[.\n])")
    pickled = b"".join(content for name, content in records.items() if name.endswith(".pkl"))
    found = [(base.replace(b"/", b"."), number) for _, base, _, number in used.findall(pickled) if bases]
    others = [(match[1].replace(b"/", b"."), match[2] or b"") for match in files]
    numbers: dict[tuple[bytes, bytes], int] = {}
    for key in [*found, *sorted(others, key=lambda key: (key[0], int(key[1] or -1)))]:
        numbers.setdefault(key, sum(base == key[0] for base, _ in numbers))

    def name(match: re.Match[bytes]) -> bytes:
        number = numbers[match[2].replace(b"/", b"."), match[4] or b""]
        return match[1] + match[2] + (match[1][-1:] + b"___torch_mangle_%d" % (number - 1) if number else b"")

    return lambda text: used.sub(name, text) if bases else text
