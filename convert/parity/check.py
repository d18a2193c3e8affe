"""Runs source, shared graph and target on the same inputs and turns their outputs into one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.errors import ConvertError, Unsupported
from convert.options import Options
from convert.parity import inputs
from convert.parity.compare import FACTOR, TWIN, agreement, compare, compare_narrow, doubt, twin_error, vacuous
from convert.parity.elements import tied, worst_elements
from convert.parity.inputs import Feed
from convert.parity.locate import locate, locate_source
from convert.parity.saved import save, sets
from convert.parity.verdict import FAIL, INCONCLUSIVE, PASS, Divergence, Verdict
from convert.runners.process import Limits, Outputs, Running, execute
from convert.source import Source
from convert.tensors import dtype_name

if TYPE_CHECKING:
    from convert.runners.narrow import Narrowed


@dataclass(frozen=True)
class Method:
    """How to verify.

    `arrays` are the user's inputs by name or place (else `seeds` feeds are made); `rtol`/`atol` replace the bound;
    `profile` asks for the errors along the network as well; `save` is where the inputs go (`.npz`); `target` are the
    options to read the target with.
    """

    arrays: Mapping[Any, np.ndarray] | None = None
    seeds: int = 3
    rtol: float | None = None
    atol: float | None = None
    limits: Limits = field(default_factory=Limits)
    profile: bool = False
    save: Path | None = None
    target: Options = field(default_factory=Options)


def unavailable(*kinds: str) -> str:
    """Why artefacts of these kinds cannot be run here, or an empty string."""
    for kind in kinds:
        runner = plugin.runner_for(kind)
        missing = f"no runner executes a {kind}" if runner is None else runner.available()
        if missing:
            return missing
    return ""


def verify(source: Source, target: Source, graph: ir.Model, options: Options, method: Method | None = None) -> Verdict:
    """Judge whether `target` computes what `source` does. `graph` is the shared graph that was read from `source`.

    Both are run as deployed and the source also in float64, each in a child process, while the graph is evaluated in
    float64 here. Raises `ConvertError` where an artefact cannot be run at all.
    """
    method = method or Method()
    feeds = _given(graph, method.arrays) if method.arrays is not None else inputs.generate(graph, method.seeds)
    if method.arrays is None and len(options.examples) == len(graph.graph.inputs) > 0:
        feeds.insert(0, inputs.given(graph, options.examples))
    if method.save is not None:
        save(method.save, feeds)
    arrays = [f.arrays for f in feeds]
    stored = _stored(target, graph)
    if stored == plugin.FULL and method.arrays is None:
        reason = "activations are in 8 bits, in ranges that were calibrated: give inputs that are like those (--inputs)"
        return Verdict(INCONCLUSIVE, reason, stored=stored)
    theirs = execute(source, arrays, ("float32", "float64"), options, method.limits)
    ours = execute(target, arrays, ("float32",), method.target, method.limits)
    try:
        twin = _graph_outputs(graph, arrays)
        expected, got = _guard(theirs, "source"), _guard(ours, "target")
    finally:
        theirs.stop()
        ours.stop()
    if isinstance(expected, ConvertError) and not isinstance(got, ConvertError):
        raise expected
    if isinstance(got, ConvertError):
        return not_run(got, graph, feeds)
    assert not isinstance(expected, ConvertError)
    narrowed = _narrowed(graph, arrays, stored)
    verdict = judge(graph, feeds, expected, _outputs(got["float32"]), twin, method, narrowed)
    verdict.stored = stored
    if verdict.status == FAIL and verdict.outputs:
        verdict.divergence = _place(verdict, source, target, graph, feeds, options, method)
    if method.profile and verdict.outputs:
        from convert.parity.profile import profile

        verdict.profile = profile(graph, target, _telling(verdict, feeds), method.target)
    return verdict


def not_run(error: ConvertError, graph: ir.Model, feeds: Sequence[Feed]) -> Verdict:
    """A target that does not run is a failure, unless its runtime lacks kernels for the dtypes that the model has."""
    floats = {v.dtype for n in graph.graph.all_nodes() for v in n.outputs if v.dtype is not None}
    unusual = sorted(dtype_name(d) for d in floats if d.is_floating_point() and d != ir.DataType.FLOAT)
    labels = [f.label for f in feeds]
    if isinstance(error, Unsupported) and unusual:
        reason = f"the target's runtime here lacks kernels for a model in {', '.join(unusual)}: {error.message}"
        return Verdict(INCONCLUSIVE, reason, feeds=labels)
    return Verdict(FAIL, f"the target does not run: {error.message}", guilty="backend", feeds=labels)


def _telling(verdict: Verdict, feeds: Sequence[Feed]) -> Feed:
    """The inputs on which a failure is worst; without one the smallest, which will do."""
    worst = [e for row in verdict.outputs if row.status == FAIL for e in row.elements]
    label = max(worst, key=lambda e: e.error).feed if worst else ""
    smallest = min(feeds, key=lambda f: sum(a.size for a in f.arrays.values()))
    return next((f for f in feeds if f.label == label), smallest)


def _place(
    verdict: Verdict,
    source: Source,
    target: Source,
    graph: ir.Model,
    feeds: Sequence[Feed],
    options: Options,
    method: Method,
) -> Divergence | str:
    """Where the guilty side departs: the backend's artefact from the graph, or the frontend's graph from the source."""
    feed = _telling(verdict, feeds)
    if verdict.guilty == "frontend":
        distance = max((r.twin for r in verdict.outputs if r.twin is not None), default=np.inf)
        return locate_source(graph, source, feed, distance, options, method.limits)
    return locate(graph, target, feed, method.target)


def _given(graph: ir.Model, arrays: Mapping[Any, np.ndarray]) -> list[Feed]:
    """The user's inputs, which may be several sets of them."""
    found = [inputs.given(graph, each) for each in sets(arrays)]
    return found if len(found) == 1 else [replace(f, label=f"{f.label}, set {i}") for i, f in enumerate(found)]


def judge(
    graph: ir.Model,
    feeds: Sequence[Feed],
    source: Mapping[str, Outputs | Unsupported],
    target: Outputs,
    twin: Outputs | Unsupported,
    method: Method,
    narrowed: Narrowed | None = None,
) -> Verdict:
    """The verdict from outputs that are at hand, each a list with one dict for each feed.

    source: by precision. narrowed: of a target with narrower numbers, what the graph computes with such: how far the
    rounded is from the exact is the noise floor then. Outputs are matched by position with the source, whose framework
    may not name them, and by name with the graph, whose names are the contract.
    """
    verdict = Verdict(PASS, feeds=[f.label for f in feeds])
    names = [str(v.name) for v in graph.graph.outputs]
    deployed = _outputs(source["float32"])
    exact = source["float64"]
    verdict.reference = "the source in float64"
    if isinstance(exact, Unsupported):
        if isinstance(twin, Unsupported):
            verdict.reference, exact = "the source in float32 (no float64 to be had)", deployed
        else:
            verdict.reference, exact = "the shared graph in float64", twin
    wrong = _contract(graph, names, deployed, target)
    if wrong:
        verdict.status, (verdict.guilty, verdict.reason) = FAIL, wrong
        return verdict
    for position, name in enumerate(names):
        references = [_at(o, position) for o in exact]
        sources = [_at(o, position) for o in deployed]
        targets = [o[name] for o in target]
        tolerant = method.rtol is not None or method.atol is not None
        if narrowed is None or tolerant:
            row = compare(name, references, sources, targets, rtol=method.rtol, atol=method.atol)
        else:
            row = compare_narrow(
                name, [o[name] for o in narrowed.exact], [o[name] for o in narrowed.rounded], sources, targets
            )
        row.elements = worst_elements(references, targets, [f.label for f in feeds])
        picked = row.status == FAIL and references[0].dtype.kind in "iu" and not tolerant
        if picked and tied(graph, name, feeds, references, targets, FACTOR):
            row.status, row.reason = PASS, "what differs is picked among scores that rounding cannot tell apart"
        row.agreement = None if narrowed is None else agreement(references, targets, row.floor)
        if not isinstance(twin, Unsupported) and exact is not twin:
            row.twin = max(twin_error(r, o[name]) for r, o in zip(references, twin, strict=True))
        verdict.outputs.append(row)
    _conclude(verdict, [[_at(o, p) for o in exact] for p in range(len(names))])
    if exact is twin and narrowed is None and method.rtol is None and method.atol is None:
        doubt(verdict)
    return verdict


def _conclude(verdict: Verdict, references: Sequence[Sequence[np.ndarray]]) -> None:
    for row in verdict.outputs:
        off = row.twin is not None and row.twin > TWIN
        if row.status == PASS and off:
            row.status = FAIL
            row.reason = f"in float64 the graph is {row.twin:.1e} away from the source (bound {TWIN:.0e}): not rounding"
        if row.status == FAIL and not verdict.guilty and row.twin is not None:
            verdict.guilty = "frontend" if off else "backend"
    failed = [r for r in verdict.outputs if r.status == FAIL]
    if failed:
        verdict.status, verdict.reason = FAIL, f"{failed[0].name}: {failed[0].reason}"
        return
    unsure = [r for r in verdict.outputs if r.status == INCONCLUSIVE]
    # One constant output beside outputs that move is a property of the model; nothing that moves proves nothing.
    if unsure and (all(vacuous(r) for r in references) or any(FACTOR * r.floor >= 1 for r in unsure)):
        verdict.status, verdict.reason = (
            INCONCLUSIVE,
            f"{unsure[0].name}: {unsure[0].reason}, so agreement proves nothing",
        )


def _contract(graph: ir.Model, names: list[str], source: Outputs, target: Outputs) -> tuple[str, str] | None:
    """Structure first: number, names and dtypes of outputs, exactly; who broke it, and how."""
    if any(len(o) != len(names) for o in source):
        return "frontend", f"the source has {len(source[0])} outputs, the graph {len(names)}"
    for position, value in enumerate(graph.graph.outputs):
        actual = _at(source[0], position)
        declared = dtype_name(value.dtype)
        if value.dtype is not None and declared != _name(actual):
            return "frontend", f"output {value.name!r} is {declared} in the graph and {_name(actual)} in the source"
    for outputs in target:
        if set(outputs) != set(names):
            return "backend", f"the outputs of the target are {list(outputs)}, those of the source {names}"
    return None


def _name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def _graph_outputs(graph: ir.Model, arrays: Sequence[Mapping[str, np.ndarray]]) -> Outputs | Unsupported:
    """The shared graph in float64, by the ONNX runner's reference executor, in this process: it is our own code."""
    runner = plugin.runners().get("onnx")
    if runner is None:
        return Unsupported("no ONNX runner is installed")
    try:
        return runner.run(Source("onnx-object", thing=graph), arrays, precision="float64", options=Options())
    except Unsupported as error:
        return error


def _stored(target: Source, graph: ir.Model) -> str:
    """How the target says that it stores numbers. A graph that quantises by itself is held to its own arithmetic."""
    tell = getattr(plugin.runner_for(target.kind), "stored", None)
    quantised = any("Quantize" in n.op_type or n.op_type.endswith("Integer") for n in graph.graph.all_nodes())
    return "" if tell is None or target.path is None or quantised else str(tell(target))


def _narrowed(graph: ir.Model, arrays: Sequence[Mapping[str, np.ndarray]], stored: str) -> Narrowed | None:
    if not stored:
        return None
    from convert.runners.narrow import simulate

    return simulate(graph, arrays, stored)


def _guard(running: Running, who: str) -> dict[str, Outputs | Unsupported] | ConvertError:
    try:
        return running.results()
    except ConvertError as error:
        error.message = f"{error.message} (the {who} of the comparison)"
        return error


def _outputs(found: Outputs | Unsupported) -> Outputs:
    if isinstance(found, Unsupported):
        raise found
    return found


def _at(outputs: Mapping[str, np.ndarray], position: int) -> np.ndarray:
    return list(outputs.values())[position]
