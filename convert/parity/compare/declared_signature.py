"""Check the inputs and outputs that an artefact declares: order, dtypes and dims that callers depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.graph.values import inverse_permutation
from convert.outcome.notes import Note
from convert.outcome.verdict import FAIL, Finding
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts
from convert.passes.layout.boundary import boundary_permutations
from convert.processes.run_here import Outputs
from convert.request.naming import Names
from convert.request.source import Source
from convert.request.storage import REAL_IO
from convert.runtimes.declared_signature import DeclaredSignature, DeclaredTensor


def compare_declared_signature(
    source: Source,
    target: Source,
    graph: ir.Model,
    outputs: Outputs,
    layout: str,
    method: VerifyMethod,
    *,
    dtypes: bool,
) -> Finding:
    """Return FAIL if a target made by convert declares other inputs or outputs than it has; notes for a user's file.

    Some runtimes, such as onnxruntime for dims, only warn about a wrong declaration. Others allocate memory by it, and
    callers rely on the order. If the source's own file makes the same wrong declaration about an output, the result is
    a note too, because only a run shows it.

    outputs: the target's outputs for each set of inputs, with the graph's names and layout. dtypes: whether inputs must
    be declared with the dtypes of the graph.
    """
    declared = _declared(target)
    if declared is None:
        return Finding()
    dtypes = dtypes and not (method.theirs or method.target.extra.get(REAL_IO))
    wrong = contradictions(declared, graph, outputs, layout, method.ends, dtypes=dtypes)
    if method.theirs:
        return Finding(notes=tuple(Note(f"the target {each}", code="contradiction") for each in wrong))
    own = _declared(source) if wrong else None
    inherited = set(wrong) & set(contradictions(own, graph, outputs, "", Names(), dtypes=False)) if own else set()
    texts = (f"the target {each}, as the source does" for each in sorted(inherited))
    notes = tuple(Note(text, code="contradiction") for text in texts)
    rest = [each for each in wrong if each not in inherited]
    return Finding(FAIL, f"the target {rest[0]}", "backend", notes) if rest else Finding(notes=notes)


def _declared(artefact: Source) -> DeclaredSignature | None:
    tell = getattr(plugin.runner_for(artefact.kind), "declared_signature", None)
    found: DeclaredSignature | None = tell(artefact) if tell is not None else None
    return found


def contradictions(
    declared: DeclaredSignature,
    graph: ir.Model,
    outputs: Outputs,
    layout: str,
    ends: Counterparts | Names,
    *,
    dtypes: bool,
) -> list[str]:
    """Return the wrong declarations as predicates without a subject. dtypes: whether to compare dtypes of inputs."""
    moved = boundary_permutations(graph, layout)
    found = [
        *_order("inputs", [ends.inputs.get(str(v.name), str(v.name)) for v in graph.graph.inputs], declared.inputs),
        *_order("outputs", [ends.outputs.get(str(v.name), str(v.name)) for v in graph.graph.outputs], declared.outputs),
    ]
    by_name = {end.name: end for end in (*declared.inputs, *declared.outputs)}
    for value in graph.graph.inputs if dtypes else ():
        name = str(value.name)
        end = by_name.get(ends.inputs.get(name, name))
        contained = isinstance(ends, Names) and name in ends.input_containers
        if end is None or contained or value.dtype is None or end.dtype == value.dtype.name.lower():
            continue
        found.append(f"declares input {end.name!r} as {end.dtype}, which is {value.dtype.name.lower()} in the source")
    for value in graph.graph.outputs:
        name = str(value.name)
        end = by_name.get(ends.outputs.get(name, name))
        if end is not None:
            shapes = [np.shape(each[name]) for each in outputs if name in each]
            found += _dims(end, shapes, moved, name)
    return found


def _order(what: str, wanted: Sequence[str], ends: Sequence[DeclaredTensor]) -> list[str]:
    known = set(wanted)
    got = [end.name for end in ends if end.name in known]
    wanted = [name for name in wanted if name in set(got)]
    if got == wanted:
        return []
    return [f"has its {what} in the order {', '.join(got)}, and the source in the order {', '.join(wanted)}"]


def _dims(
    end: DeclaredTensor, shapes: Sequence[tuple[int, ...]], moved: Mapping[str, Sequence[int]], name: str
) -> list[str]:
    dims = end.dims
    if dims is None:
        return []
    if name in moved and len(dims) == len(moved[name]):
        dims = tuple(dims[a] for a in inverse_permutation(tuple(moved[name])))
    for shape in shapes:
        if len(shape) != len(dims) or any(d is not None and d != size for d, size in zip(dims, shape, strict=True)):
            text = ", ".join("?" if d is None else str(d) for d in dims)
            return [f"declares output {end.name!r} as [{text}], and gives [{', '.join(map(str, shape))}]"]
    return []
