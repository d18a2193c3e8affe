"""Converts a model from one opset to another, up or down, node by node; weights and names stay.

A node stays if both versions of its operator give it the same meaning. Any other node is converted in the first way
that applies:

- an adapter of ours, or a lowering
- ONNX's version converter, for that node alone with its small constants
- the body of the operator's ONNX function

All nodes without a way are listed in one `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import onnx
import onnx_ir as ir

from convert.errors import Location, Problem, Unsupported
from convert.graph import location_of
from convert.graph.node_inference import infer
from convert.graph.shape_inference import infer_facts, subgraphs, with_inner_nodes
from convert.graph.values import names_in_use
from convert.legalize.replacement import Replacement
from convert.passes.opset.adapters import LIFTS, LOWERINGS, Adapter
from convert.passes.opset.compare_schemas import fits_version, same_signature
from convert.passes.opset.expansions import expand
from convert.passes.opset.onnx_tools import expand_function, version_convert
from convert.passes.opset.widen import widen

_MAX_ROUNDS = 32


def convert_opset(
    model: ir.Model, target: int, *, keep_newer: bool = False, forms: Mapping[str, Adapter] | None = None
) -> None:
    """Rewrite `model` in place for opset `target` of the default domain. Requires inferred facts.

    Raises an `Unsupported` that lists every operator which the target opset cannot express, with the reason. With
    `keep_newer`, a model of a newer opset keeps such nodes instead, together with its opset. `forms` are adapters by
    operator that rewrite nodes at the target opset, for readers that accept another form better.
    """
    source = model.graph.opset_imports.get("", target)
    work = [(node, source) for node in model.graph.all_nodes() if node.domain == ""]
    conversion = _Conversion(model, target)
    for _ in range(_MAX_ROUNDS):
        if not work:
            break
        work = conversion.round(work)
    conversion.note_unfinished(node for node, _ in work)
    if not conversion.problems:
        conversion.rewrite(forms or {})
    if conversion.problems and not (keep_newer and source > target):
        conversion.fail()
    model.graph.opset_imports[""] = source if conversion.problems else target
    if conversion.replacement.changed:
        infer_facts(model)


class _Conversion:
    """The state of one `convert_opset`: names in use, and problems so far."""

    def __init__(self, model: ir.Model, target: int) -> None:
        self.model, self.target = model, target
        self.replacement = Replacement(model, names_in_use(model))
        self.problems: dict[tuple[str, str], list[Location]] = {}

    def round(self, work: Sequence[tuple[ir.Node, int]]) -> list[tuple[ir.Node, int]]:
        """Convert each (node, version); return the nodes that expansions created and that need another round."""
        left: list[tuple[ir.Node, int]] = []
        waiting: dict[int, list[ir.Node]] = {}
        for node, version in work:
            if version == self.target or node.graph is None or self._stays(node, version):
                continue
            if self._widen(node, version, left) or self._apply_adapter(node, version, left):
                continue
            if any(subgraphs(a) for a in node.attributes.values()) and _exists(node.op_type, self.target):
                self._problem(node, f"opset {version} of it has another meaning than opset {self.target}")
                continue
            if onnx.defs.has(node.op_type, "") and _exists(node.op_type, self.target):
                waiting.setdefault(version, []).append(node)
            else:
                self._expand(node, version, left, f"not in opset {self.target}, and ONNX defines no function for it")
        for version, nodes in waiting.items():
            converted = version_convert(nodes, version, self.target)
            for node, result in zip(nodes, converted, strict=True):
                if isinstance(result, str):
                    self._expand(node, version, left, result)
                else:
                    self._splice_graph(node, result, self.target)
        return left

    def rewrite(self, forms: Mapping[str, Adapter]) -> None:
        """Rewrite nodes at the target opset by the adapters in `forms`; their results are not rewritten again."""
        for node in [n for n in self.model.graph.all_nodes() if n.domain == "" and n.op_type in forms]:
            self._run(forms[node.op_type], node, self.target)

    def note_unfinished(self, nodes: Iterable[ir.Node]) -> None:
        """Record the nodes that are left after the last round as problems."""
        for node in nodes:
            self._problem(node, f"its expansion for opset {self.target} does not end")

    def fail(self) -> NoReturn:
        """Raise `Unsupported` with all problems."""
        raise Unsupported(
            problems=[Problem(why, places[0], len(places)) for (_, why), places in self.problems.items()],
            hint=f"another --opset may have what opset {self.target} lacks",
        )

    def _stays(self, node: ir.Node, version: int) -> bool:
        if not (_exists(node.op_type, self.target) and _exists(node.op_type, version)):
            return False
        if any(subgraphs(a) for a in node.attributes.values()):
            sequences = any(isinstance(v.type, (ir.SequenceType, ir.OptionalType)) for v in node.outputs)
            same = node.op_type in ("If", "Loop") or min(version, self.target) >= 9
            return same and not (sequences and self.target < 13)
        if version < self.target:
            return same_signature(node.op_type, version, self.target)
        return fits_version(node, version, self.target)

    def _apply_adapter(self, node: ir.Node, version: int, left: list[tuple[ir.Node, int]]) -> bool:
        """Apply an adapter of ours, if there is one that accepts the node; return whether one was applied."""
        adapter: Adapter | None
        if version < self.target:
            adapter = LIFTS.get(node.op_type)
        else:
            since, adapter = LOWERINGS.get(node.op_type, (0, None))
            adapter = adapter if self.target < since <= version else None
        if adapter is not None and self._run(adapter, node, self.target) is not None:
            return True
        made = self._run(expand, node, version)
        left.extend((n, version) for n in with_inner_nodes(made or ()))
        return made is not None

    def _widen(self, node: ir.Node, version: int, left: list[tuple[ir.Node, int]]) -> bool:
        """Put Casts around the operator if the older one lacks its dtype.

        Returns whether they were needed and possible.
        """
        if version < self.target or not _exists(node.op_type, self.target):
            return False
        made = self._run(lambda g, node, target: widen(g, node, version, target), node, version)
        left.extend((n, version) for n in made or ())
        return made is not None

    def _run(self, adapter: Adapter, node: ir.Node, opset: int) -> list[ir.Node] | None:
        at = Location(node=node.name or node.op_type)
        try:
            built = self.replacement.build(lambda g: adapter(g, node, self.target), opset, at)
        except onnx.defs.SchemaError:  # the adapter uses an operator that the older opset lacks
            return None
        except (Unsupported, ValueError) as error:
            self._problem(node, str(error))
            return []
        return None if built is None else self.replacement.place_graph(node, *built)

    def _expand(self, node: ir.Node, version: int, left: list[tuple[ir.Node, int]], why: str) -> None:
        body = expand_function(node, version)
        if isinstance(body, str):
            self._problem(node, why)
            return
        left.extend((n, version) for n in with_inner_nodes(self._splice_graph(node, body, version)))

    def _splice_graph(self, node: ir.Node, body: ir.Graph, opset: int) -> list[ir.Node]:
        """Replace `node` by the nodes of `body`, whose inputs and outputs correspond to the node's in order.

        Returns them.
        """
        actual = [v for v in node.inputs if v is not None]
        for formal, value in zip(list(body.inputs), actual, strict=True):
            formal.replace_all_uses_with(value, replace_graph_outputs=True)
        nodes, results, values = list(body), list(body.outputs), list(body.initializers.values())
        body.outputs.clear()
        body.remove(nodes)
        own = {id(v) for n in nodes for v in n.outputs}
        placed: list[ir.Value | None] = []
        for result in results:
            if id(result) not in own:
                nodes.append(ir.Node("", "Identity", [result]))
                result = nodes[-1].outputs[0]
            placed.append(result)
        outputs = iter(placed)
        for value in (v for n in nodes for v in n.outputs):
            value.name = self.replacement.unique(f"{node.name or node.op_type}_{value.name or 'value'}")
        for n in nodes:
            n.name = self.replacement.unique(node.name or n.op_type)
        for value in values:
            value.name = self.replacement.unique(f"{node.name or node.op_type}_{value.name}")
        for n in nodes:
            _infer(n, opset)
        self.replacement.place(node, nodes, [next(outputs) if v.name else None for v in node.outputs], values)
        return nodes

    def _problem(self, node: ir.Node, why: str) -> None:
        self.problems.setdefault((node.op_type, why), []).append(location_of(node))


def _infer(node: ir.Node, opset: int) -> None:
    if node.op_type == "Constant":
        node.outputs[0].const_value = ir.convenience.get_const_tensor(node.outputs[0])
    if node.domain == "" and _exists(node.op_type, opset):
        # A failed inference leaves facts unknown, which is reported wherever they are needed.
        with suppress(ValueError):
            infer(node, onnx.defs.get_schema(node.op_type, opset, ""))


def _exists(operator: str, opset: int) -> bool:
    try:
        schema = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return False
    return not schema.deprecated
