"""Find the values of a shared graph that depend on random numbers and cannot be compared number by number.

Source and target use random generators of their own. Randomness in the source would count as its rounding error and
hide any smaller defect of the target. An output that depends on random numbers is therefore never judged by its
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Location
from convert.graph import location_of
from convert.graph.shape_inference import subgraphs
from convert.graph.tensors import widened_array
from convert.graph.values import is_random_node
from convert.outcome.verdict import FAIL, INCONCLUSIVE, Finding, OutputVerdict
from convert.parity.magnitudes import rms

# The outputs of these operators depend only on the shape of their input.
_SHAPE_ONLY = frozenset({"Shape", "Size", "EyeLike"})

Origins = dict[ir.Value, Location]
"""Values that depend on random numbers, each with the first operator that generates them."""


def random_values(model: ir.Model) -> Origins:
    """Return every value that depends on random numbers, including values in subgraphs."""
    samplers = {
        (f.domain, f.name): at
        for f in model.functions.values()
        if (at := next((location_of(n) for n in f.all_nodes() if is_random_node(n)), None)) is not None
    }
    found: Origins = {}
    _spread(model.graph, found, samplers)
    return found


def random_outputs(model: ir.Model) -> dict[str, str]:
    """Return the outputs that depend on random numbers: name to a description of the operator that generates them."""
    found = random_values(model)
    return {str(v.name): str(found[v]) for v in model.graph.outputs if v in found}


def describe_randomness(model: ir.Model) -> list[str]:
    """Return a sentence for each random output: its random operator, and that every runtime has other numbers."""
    seeded = any(is_random_node(n) and n.attributes.get("seed") is not None for n in model.graph.all_nodes())
    seed = "; a seed in the source is one of its own generator, other runtimes draw others from it" if seeded else ""
    return [
        f"output {name!r} depends on random numbers ({at}), which every runtime draws for itself: it is not compared"
        + seed
        for name, at in random_outputs(model).items()
    ]


def judge_random(
    graph: ir.Model, name: str, at: str, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
) -> OutputVerdict:
    """Judge an output that depends on random numbers: FAIL for another dtype, rank or size, else INCONCLUSIVE.

    Sizes that are computed at run time may depend on the random numbers, and are not compared.
    """
    why = f"it depends on random numbers ({at}), which source and target draw each for itself"
    row = OutputVerdict(name, INCONCLUSIVE, why)
    value = next(v for v in graph.graph.outputs if v.name == name)
    named = {d.value for v in graph.graph.inputs for d in v.shape or () if isinstance(d, ir.SymbolicDim)} - {None}
    for source, target in zip(sources, targets, strict=True):
        fixed = [isinstance(d, int) or d.value in named for d in value.shape or ()]
        if source.dtype != target.dtype:
            row = row.after(Finding(FAIL, f"dtype {target.dtype} where the source has {source.dtype}"))
        elif source.ndim != target.ndim or any(
            known and a != b for known, a, b in zip(fixed, source.shape, target.shape, strict=False)
        ):
            row = row.after(Finding(FAIL, f"shape {list(target.shape)} where the source has {list(source.shape)}"))
    return row


# Two runs of one artefact may add in another order, which gives a smaller difference than random numbers do.
_REPEATED = 1e-4


def describe_repeats(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], known: Sequence[int] = ()
) -> list[str]:
    """Describe the outputs that differ between two runs on the same inputs, because of randomness not in the graph.

    known: indices of the outputs that are random according to the graph; these are skipped.
    """
    found = []
    for i, ((name, a), b) in enumerate(zip(first.items(), second.values(), strict=True)):
        if i in known:
            continue
        if a.shape != b.shape or a.dtype.kind not in "fc":
            moves = not np.array_equal(a, b)
        else:
            wide = [widened_array(x)[np.isfinite(a) & np.isfinite(b)] for x in (a, b)]
            moves = rms(wide[0] - wide[1]) > _REPEATED * rms(wide[0])
        if moves:
            found.append(f"other numbers for {name!r} each time that it is run on the same inputs: it draws some")
    return found


def _spread(graph: ir.Graph, found: Origins, samplers: Mapping[tuple[str, str], Location]) -> None:
    """Add to `found` the values of a graph and its subgraphs that depend on random values or on values in `found`."""
    for node in graph:
        if is_random_node(node):
            found.update({v: location_of(node) for v in node.outputs})
            continue
        if (node.domain, node.op_type) in samplers:
            found.update(dict.fromkeys(node.outputs, samplers[node.domain, node.op_type]))
            continue
        if node.domain == "" and node.op_type in _SHAPE_ONLY:
            continue
        control = _CONTROL.get(node.op_type) if node.domain == "" else None
        if control is not None:
            control(node, found, lambda body: _spread(body, found, samplers))
            continue
        origin = _first(node.inputs, found)
        for attribute in node.attributes.values():
            for body in subgraphs(attribute):
                _spread(body, found, samplers)
                inside = [v for inner in body.all_nodes() for v in inner.outputs]
                origin = origin or _first([*inside, *body.outputs], found)
        if origin is not None:
            found.update(dict.fromkeys(node.outputs, origin))


def _first(values: Sequence[ir.Value | None], found: Origins) -> Location | None:
    return next((found[v] for v in values if v is not None and v in found), None)


def _mark(outputs: Sequence[ir.Value], origins: Sequence[Location | None], found: Origins) -> None:
    found.update({v: at for v, at in zip(outputs, origins, strict=False) if at is not None})


_Spread = Callable[[ir.Graph], None]


def _spread_if(node: ir.Node, found: Origins, spread: _Spread) -> None:
    """Mark each output that depends on a random condition, or whose value in either branch is random."""
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    for branch in branches:
        spread(branch)
    condition = _first(node.inputs, found)
    pairs = zip(*(b.outputs for b in branches), strict=True)
    _mark(node.outputs, [condition or _first(pair, found) for pair in pairs], found)


def _spread_loop(node: ir.Node, found: Origins, spread: _Spread) -> None:
    body = node.attributes["body"].as_graph()
    carried, made = list(body.inputs[2:]), list(body.outputs[1:])
    _spread_rounds(body, carried, node.inputs[2:], made, found, spread)
    count = _first([*node.inputs[:2], body.outputs[0]], found)
    _mark(node.outputs, [count or _first(pair, found) for pair in _with_initial(made, node.inputs[2:])], found)


def _spread_scan(node: ir.Node, found: Origins, spread: _Spread) -> None:
    body = node.attributes["body"].as_graph()
    states = len(body.inputs) - node.attributes.get_int("num_scan_inputs", 0)
    _mark(body.inputs[states:], [_first([v], found) for v in node.inputs[states:]], found)
    _spread_rounds(body, body.inputs[:states], node.inputs[:states], body.outputs, found, spread)
    pairs = _with_initial(body.outputs, node.inputs[:states])
    _mark(node.outputs, [_first(pair, found) for pair in pairs], found)


def _with_initial(made: Sequence[ir.Value], initial: Sequence[ir.Value | None]) -> list[tuple[ir.Value | None, ...]]:
    """Pair each value that a body computes with its initial value, which is the result if the body runs zero times."""
    return list(zip(made, [*initial, *[None] * (len(made) - len(initial))], strict=True))


def _spread_rounds(
    body: ir.Graph,
    carried: Sequence[ir.Value],
    initial: Sequence[ir.Value | None],
    made: Sequence[ir.Value],
    found: Origins,
    spread: _Spread,
) -> None:
    """Spread through the iterations of a loop until nothing is added: carried values take over random values of the
    iteration before.
    """
    _mark(carried, [_first([v], found) for v in initial], found)
    before = -1
    while len(found) != before:
        before = len(found)
        spread(body)
        _mark(carried, [_first([v], found) for v in made[: len(carried)]], found)


_CONTROL: dict[str, Callable[[ir.Node, Origins, _Spread], None]] = {
    "If": _spread_if,
    "Loop": _spread_loop,
    "Scan": _spread_scan,
}
