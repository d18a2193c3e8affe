"""Holds an artefact to what it says of its own inputs and outputs: order, dtypes and dims that others build upon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.declared_ends import DeclaredEnd, DeclaredEnds
from convert.graph.values import inverse_permutation
from convert.naming import Names
from convert.notes import Note
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts
from convert.passes.layout.boundary import boundary_permutations
from convert.runners.process import Outputs
from convert.source import Source
from convert.verdict import FAIL, Verdict


def hold_declared_ends(
    verdict: Verdict,
    source: Source,
    target: Source,
    graph: ir.Model,
    outputs: Outputs,
    layout: str,
    method: VerifyMethod,
) -> None:
    """FAIL, in place, where what convert has made declares other ends than it has; a note on a file of the user's.

    Runtimes that only warn, as onnxruntime does of dims, are not the only ones: others allocate by what is declared,
    and callers go by place. Sizes of outputs that the source's own file is wrong about in the same words are a note
    too, because nothing but a run tells them. outputs: of the target by the graph's names and in its layout, for each
    set of inputs.
    """
    declared = _declared(target) if verdict.outputs else None
    if declared is None:
        return
    wrong = contradictions(declared, graph, outputs, layout, method.ends, dtypes=not (verdict.stored or method.theirs))
    own = _declared(source) if wrong and not method.theirs else None
    if own is not None:
        inherited = set(wrong) & set(contradictions(own, graph, outputs, "", Names(), dtypes=False))
        wrong = [each for each in wrong if each not in inherited]
        verdict.notes += [
            Note(f"the target {each}, as the source does", code="contradiction") for each in sorted(inherited)
        ]
    if method.theirs:
        verdict.notes += [Note(f"the target {each}", code="contradiction") for each in wrong]
    elif wrong:
        verdict.lower(FAIL, f"the target {wrong[0]}", "backend")


def _declared(artefact: Source) -> DeclaredEnds | None:
    tell = getattr(plugin.runner_for(artefact.kind), "declared_ends", None)
    found: DeclaredEnds | None = tell(artefact) if tell is not None else None
    return found


def contradictions(
    declared: DeclaredEnds,
    graph: ir.Model,
    outputs: Outputs,
    layout: str,
    ends: Counterparts | Names,
    *,
    dtypes: bool,
) -> list[str]:
    """What of the declaration is not so, as ends of sentences. dtypes: whether inputs have to be of the graph's."""
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


def _order(what: str, wanted: Sequence[str], ends: Sequence[DeclaredEnd]) -> list[str]:
    known = set(wanted)
    got = [end.name for end in ends if end.name in known]
    wanted = [name for name in wanted if name in set(got)]
    if got == wanted:
        return []
    return [f"has its {what} in the order {', '.join(got)}, and the source in the order {', '.join(wanted)}"]


def _dims(
    end: DeclaredEnd, shapes: Sequence[tuple[int, ...]], moved: Mapping[str, Sequence[int]], name: str
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
