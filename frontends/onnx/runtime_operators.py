"""Replaces ONNX Runtime's own operators by ONNX's, for those that `ops/` has a rule for.

The file's other operators have its opset, but the rules write the canonical one. The conversion of the opset needs the
dtypes and shapes of all values, so these are inferred first; the rules are applied after the conversion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import onnx
import onnx_ir as ir

from convert.errors import Problem, Unsupported
from convert.graph import Graph, location_of
from convert.graph.model_names import ModelNames
from convert.graph.node_inference import infer
from convert.graph.shape_inference import infer_facts
from convert.graph.values import attribute_content, is_used
from convert.outcome.report import Report
from convert.rules.onnx_schemas import operator_of

from . import ops  # noqa: F401  (fills the table)
from .rules import MICROSOFT, runtime_op

_EXPERIMENTAL = (
    "Affine", "ConstantFill", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh",
)  # fmt: skip
_WITHOUT_DOMAIN = {
    **dict.fromkeys(_EXPERIMENTAL, (0, 1 << 31)),
    "ThresholdedRelu": (0, 10),
    "SimplifiedLayerNormalization": (0, 1 << 31),
    "LayerNormalization": (0, 17),
    "GroupNormalization": (18, 21),
}
"""Operators that ONNX Runtime or ONNX 1.0 to 1.4 has in ONNX's domain, but ONNX's checker rejects: first opset, and
the opset after the last.
"""


def give_domain(proto: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Move operators that files have in ONNX's domain, but ONNX lacks at the model's opset, to their own domain,
    in place.

    nodes: all nodes of the model.
    """
    version = next((entry.version for entry in proto.opset_import if entry.domain == ""), 1)
    functions = {(f.domain, f.name) for f in proto.functions}
    moved = []
    for node in nodes:
        first, end = _WITHOUT_DOMAIN.get(node.op_type, (0, 0)) if node.domain == "" else (0, 0)
        if first <= version < end and ("", node.op_type) not in functions:
            moved.append(node)
    for node in moved:
        node.domain = MICROSOFT
    if moved and all(entry.domain != MICROSOFT for entry in proto.opset_import):
        proto.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))


def find_facts(model: ir.Model) -> bool:
    """Set the facts of the table's operators and of the values that depend on them; return whether there are such
    operators.

    ONNX's inference does not know these operators and stops at each.
    """
    if not _own(model):
        return False
    infer_facts(model)
    version = model.graph.opset_imports.get("", 1)
    for node in model.graph.all_nodes():
        if operator_of(node) in runtime_op:
            # `write_in_onnx` reports what a rule refuses, when more is known.
            with suppress(Unsupported, ValueError):
                _copy_facts_of_rule(node)
        elif node.domain == "" and onnx.defs.has(node.op_type, version, "") and _are_open(node):
            with suppress(ValueError):
                infer(node, onnx.defs.get_schema(node.op_type, version, ""))
    return True


def _copy_facts_of_rule(node: ir.Node) -> None:
    """Set the facts of the node's outputs to those that its rule computes. Raises as the rule does."""
    g = Graph()
    try:
        for old, new in zip(node.outputs, _results(g, node), strict=False):
            if new is not None:
                old.type, old.shape = new.type, new.shape
    finally:
        g.discard()


def write_in_onnx(model: ir.Model, report: Report) -> None:
    """Replace the operators of the table, in a model of the canonical opset, in place.

    Raises one `Unsupported` that lists all inputs that their rules do not take, and operators in a layout of ONNX
    Runtime's own.
    """
    _refuse_layouts(model)
    found = _own(model)
    if not found:
        return
    taken: dict[str, int] = dict.fromkeys(ModelNames(model.graph).taken, 0)
    problems: list[Problem] = []
    for node in found:
        g = Graph()
        g.reserve(taken)
        try:
            with g.at(location_of(node)):
                _replace(model, node, g, _results(g, node))
        except Unsupported as error:
            problems += error.problems
    if problems:
        raise Unsupported(problems=problems)
    counts = Counter(node.op_type for node in found)
    listing = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(counts.items()))
    report.note(f"operators that ONNX does not have were written in ONNX's: {listing}", code="runtime-operators")
    infer_facts(model)


def _refuse_layouts(model: ir.Model) -> None:
    """Raise `Unsupported` for operators on blocks of channels, whose weights have the layout of one processor."""
    found = [node for node in model.graph.all_nodes() if node.domain == f"{MICROSOFT}.nchwc"]
    if found:
        raise Unsupported(
            problems=[Problem("ONNX Runtime wrote it for the processor that it ran on", location_of(n)) for n in found],
            hint="convert the model that it was made of, or let onnxruntime optimize that to ORT_ENABLE_EXTENDED only",
        )


def _own(model: ir.Model) -> list[ir.Node]:
    return [node for node in model.graph.all_nodes() if operator_of(node) in runtime_op]


def _are_open(node: ir.Node) -> bool:
    return any(y.name and (y.type is None or y.shape is None) for y in node.outputs)


def _results(g: Graph, node: ir.Node) -> Sequence[ir.Value | None]:
    """Return what the rule computes for each output of the node."""
    attributes = {a.name: attribute_content(a) for a in node.attributes.values()}
    made = runtime_op.apply(g, operator_of(node), list(node.inputs), attributes, location_of(node))
    return made if isinstance(made, list) else [made]


def _replace(model: ir.Model, node: ir.Node, g: Graph, results: Sequence[ir.Value | None]) -> None:
    graph = node.graph
    assert graph is not None
    results = [*results, *[None] * (len(node.outputs) - len(results))]
    own = {v for made in g.graph for v in made.outputs}
    placed: list[tuple[ir.Value, ir.Value]] = []
    for old, new in zip(node.outputs, results, strict=False):
        if not is_used(old):
            continue
        if new is None:
            raise Unsupported(problems=[Problem(f"its output {old.name!r} is not computed", location_of(node))])
        if new not in own:  # an input, or the value of another output
            new = g.Identity(new)
        own.discard(new)
        placed.append((old, new))
    nodes, constants = list(g.graph), list(g.graph.initializers.values())
    g.graph.remove(nodes)
    for value in constants:
        g.graph.initializers.pop(value.name or "")
        model.graph.register_initializer(value)
    graph.insert_before(node, nodes)
    for old, new in placed:
        name = old.name
        if old.type is not None:
            new.type = old.type
        if old.is_graph_output() and old.shape is not None:
            new.shape = old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        new.name, old.name = name, None
    graph.remove(node, safe=True)
