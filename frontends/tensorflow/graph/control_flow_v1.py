"""Converts TensorFlow 1's control flow (Switch, Merge, Enter, Exit, NextIteration) into If and While.

Frozen graphs of TensorFlow 2 have it too, because freezing lowers functional control flow by default. A loop variable
is Merge(Enter, NextIteration). The loop's condition is the input of LoopCond, and its body lies between the Switch of
each variable and its NextIteration. The operands of a branch are Switches with the same predicate, and a Merge joins
the results. Several branches use _SwitchN, which freezing creates from Case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from convert.errors import Unsupported

from .function_body import FunctionBody, Node, Ref
from .protos import MESSAGES
from .refused import refuse_state_changes, refuse_unsafe
from .tensor_arrays_v1 import OPERATORS as _ARRAYS
from .tensor_arrays_v1 import arrays_to_lists

_ENTER, _EXIT, _NEXT = ("Enter", "RefEnter"), ("Exit", "RefExit"), ("NextIteration", "RefNextIteration")
_RESULTS = " results"  # a node of no graph, so that results are replaced like inputs
_MERGE, _SWITCH, _CASE = ("Merge", "RefMerge"), ("Switch", "RefSwitch"), "_SwitchN"
OPERATORS = (*_ENTER, *_EXIT, *_NEXT, *_MERGE, *_SWITCH, _CASE, "LoopCond", *_ARRAYS)
"""The operators that `structure_control_flow` removes."""


def structure_control_flow(body: FunctionBody, functions: MutableMapping[str, FunctionBody]) -> FunctionBody:
    """Return `body` with its loops and branches as While and If nodes; their functions are added to `functions`.

    Raises `Unsupported` for other control flow, and for state changes in it.
    """
    body = arrays_to_lists(body)
    if not {n.op for n in body.live} & {*_ENTER, *_EXIT, *_MERGE, *_SWITCH, _CASE}:
        return body
    # Check now nodes that only control edges reach; later these are removed, with the nodes that they wait for.
    refuse_unsafe((n.op, n.location) for n in body.control_dependencies)
    refuse_state_changes(body.control_dependencies)
    nodes = body.nodes | {_RESULTS: Node(_RESULTS, "NoOp", body.results, [], {})}
    while True:
        live = FunctionBody(body.name, nodes, body.arguments, [Ref(_RESULTS)]).live
        alive = {n.name for n in live}
        joined = {n.name for n in live if n.op in (*_MERGE, *_EXIT)}
        if not joined:
            break
        before = len([n for n in nodes.values() if n.op in (*_MERGE, *_EXIT)])
        for frame in {_frame_name(n) for n in live if n.op in _ENTER}:
            _structure_loop(nodes, frame, alive, functions)
        for name in [n.name for n in live if n.op in _MERGE]:
            _structure_branch(nodes, name, functions)
        if len([n for n in nodes.values() if n.op in (*_MERGE, *_EXIT)]) == before:
            raise Unsupported(f"control flow of TensorFlow 1 that is neither a loop nor a branch, at {min(joined)!r}")
    results = nodes.pop(_RESULTS).inputs
    nodes = {name: replace(n, controls=[]) for name, n in nodes.items()}
    return FunctionBody(body.name, nodes, body.arguments, results)


def _frame_name(node: Node) -> bytes:
    return node.attr["frame_name"].s


def _structure_loop(
    nodes: dict[str, Node], frame: bytes, alive: set[str], functions: MutableMapping[str, FunctionBody]
) -> None:
    """Replace one frame by a While, unless another loop or branch is left inside it.

    Nodes that are not `alive` are dropped: a graph that was trained keeps stacks and counters for its gradients in
    loops.
    """
    here = [nodes[name] for name in nodes if name in alive]
    enters = {n.name: n for n in here if n.op in _ENTER and _frame_name(n) == frame}
    merges = [n for n in here if n.op in _MERGE and any(r.node in enters for r in n.inputs)]
    switches = {s.inputs[0].node: s for s in here if s.op in _SWITCH}
    starts, nexts = [], []
    for merge in merges:
        start = next(r for r in merge.inputs if r.node in enters)
        back = next((nodes[r.node] for r in merge.inputs if r.node in nodes and nodes[r.node].op in _NEXT), None)
        if back is None:
            return
        starts.append(start.node)
        nexts.append(back.inputs[0])
    conditions = {switches[m.name].inputs[1].node for m in merges if m.name in switches}
    if len(conditions) != 1 or nodes[next(iter(conditions))].op != "LoopCond":
        return
    constant = [e for e in enters if e not in starts]
    inside = {(c, 0): Ref(f"{c}/argument") for c in constant}
    arguments = [f"{m.name}/argument" for m in merges] + [f"{c}/argument" for c in constant]
    at_test = inside | {(m.name, 0): Ref(f"{m.name}/argument") for m in merges}
    at_work = inside | {(switches[m.name].name, 1): Ref(f"{m.name}/argument") for m in merges if m.name in switches}
    test, work = f"{frame.decode(errors='backslashreplace')}/cond", f"{frame.decode(errors='backslashreplace')}/body"
    verdict = nodes[next(iter(conditions))].inputs[0]
    cond = _extract_function(test, nodes, at_test, arguments, [verdict])
    results = [*nexts, *(Ref(c) for c in constant)]
    body = _extract_function(work, nodes, at_work, arguments, results)
    if _has_control_flow(cond) or _has_control_flow(body):
        return
    functions[test], functions[work] = cond, body
    name = f"{frame.decode(errors='backslashreplace')}/while"
    given = [nodes[e].inputs[0] for e in (*starts, *constant)]
    nodes[name] = Node(name, "While", given, [], {"cond": _function_attribute(test), "body": _function_attribute(work)})
    order = {switches[m.name].name: k for k, m in enumerate(merges) if m.name in switches}
    exits = {n.name: order[n.inputs[0].node] for n in nodes.values() if n.op in _EXIT and n.inputs[0].node in order}
    gone = {*exits, *(m.name for m in merges)}
    _replace_references(nodes, {(x, 0): Ref(name, "", k) for x, k in exits.items()}, gone)


def _structure_branch(nodes: dict[str, Node], name: str, functions: MutableMapping[str, FunctionBody]) -> None:
    """Replace one Merge by an If, if its inputs depend on one predicate and no control flow is left inside."""
    merge = nodes.get(name)
    if merge is None or any(nodes[r.node].op in _ENTER + _NEXT for r in merge.inputs):
        return
    regions = [_controlling_switches(nodes, ref) for ref in merge.inputs]
    if any(region is None for region in regions):
        return
    if indices := _branch_indices(nodes, merge.inputs, regions):
        _structure_case(nodes, merge, [r or {} for r in regions], indices, functions)
        return
    if len(merge.inputs) != 2:
        return
    sides = [_branch_side(nodes, ref, region or {}) for ref, region in zip(merge.inputs, regions, strict=True)]
    if sides.count(None) == 1:  # constants only: the other side determines the predicate
        sides = [1 - (sides[1 - i] or 0) if side is None else side for i, side in enumerate(sides)]
    used = {s: i for region in regions for s, i in (region or {}).items()}
    predicates = {nodes[s].inputs[1] for s in used} or _pivot_predicates(nodes, merge.inputs)
    if sorted(s for s in sides if s is not None) != [0, 1] or len(predicates) != 1:
        return
    arguments = [f"{s}/argument" for s in used]
    names = {}
    for side, ref in zip(sides, merge.inputs, strict=True):
        label = f"{name}/{'then' if side else 'else'}"
        mapping = {(s, side or 0): Ref(f"{s}/argument") for s in used}
        function = _extract_function(label, nodes, mapping, arguments, [ref])
        functions[label] = function
        names[side] = label
    new = f"{name}/if"
    inputs = [next(iter(predicates)), *(nodes[s].inputs[0] for s in used)]
    nodes[new] = Node(
        new,
        "If",
        inputs,
        [],
        {"then_branch": _function_attribute(names[1]), "else_branch": _function_attribute(names[0])},
    )
    _replace_references(nodes, {(name, 0): Ref(new)}, {name})


def _branch_indices(
    nodes: Mapping[str, Node], starts: Iterable[Ref], regions: Iterable[Mapping[str, int] | None]
) -> set[Ref]:
    """Return the references that select among several branches: the index of the _SwitchN that they read or wait
    for.
    """
    used = {name for region in regions for name in region or {}}
    used = used or {name for start in starts for name in _awaited_switches(nodes, start)}
    return {nodes[name].inputs[1] for name in used if nodes[name].op == _CASE}


def _awaited_switches(nodes: Mapping[str, Node], start: Ref) -> set[str]:
    """Return the Switches that constants behind `start` wait for, through nodes that do nothing."""
    found, stack, seen = set(), [start.node], set()
    while stack:
        node = nodes[stack.pop()]
        if node.op in (*_SWITCH, _CASE):
            found.add(node.name)
        elif node.name not in seen and node.op not in _MERGE + _EXIT + _ENTER:
            seen.add(node.name)
            stack += [r.node for r in node.inputs] + [c for c in node.controls if c in nodes]
    return found


def _structure_case(
    nodes: dict[str, Node], merge: Node, regions: list[dict[str, int]], indices: set[Ref],
    functions: MutableMapping[str, FunctionBody],
) -> None:  # fmt: skip
    """Replace a Merge by a Case. Branches are joined in order; the last one is for all other indices."""
    used = {s: 0 for region in regions for s in region}
    if len(indices) != 1 or any(set(r.values()) - {i} for i, r in enumerate(regions)):
        return
    if any(nodes[s].op != _CASE or nodes[s].attr["num_outs"].i != len(regions) for s in used):
        return
    arguments, branches = [f"{s}/argument" for s in used], MESSAGES["AttrValue"]()
    for i, ref in enumerate(merge.inputs):
        label = f"{merge.name}/branch_{i}"
        mapping = {(s, i): Ref(f"{s}/argument") for s in used}
        functions[label] = _extract_function(label, nodes, mapping, arguments, [ref])
        branches.list.func.add().name = label
    new = f"{merge.name}/case"
    inputs = [*indices, *(nodes[s].inputs[0] for s in used)]
    nodes[new] = Node(new, "Case", inputs, [], {"branches": branches})
    _replace_references(nodes, {(merge.name, 0): Ref(new)}, {merge.name})


def _controlling_switches(nodes: Mapping[str, Node], start: Ref) -> dict[str, int] | None:
    """Return the Switches that `start` depends on, with the side; None if other control flow is in between."""
    found: dict[str, int] = {}
    stack, seen = [start], set()
    while stack:
        ref = stack.pop()
        node = nodes[ref.node]
        if node.op in (*_SWITCH, _CASE):
            if found.setdefault(node.name, ref.index) != ref.index:
                return None
        elif node.op in _MERGE + _EXIT + _ENTER:
            return None
        elif node.name not in seen:
            seen.add(node.name)
            stack += node.inputs
    return found


def _branch_side(nodes: Mapping[str, Node], start: Ref, region: Mapping[str, int]) -> int | None:
    """Return 1 for the branch in which the predicate holds, 0 for the other; None if unknown."""
    sides = set(region.values()) or {side for side, _ in _pivot_guards(nodes, start)}
    return sides.pop() if len(sides) == 1 else None


def _pivot_predicates(nodes: Mapping[str, Node], starts: Iterable[Ref]) -> set[Ref]:
    return {predicate for start in starts for _, predicate in _pivot_guards(nodes, start)}


def _pivot_guards(nodes: Mapping[str, Node], start: Ref) -> set[tuple[int, Ref]]:
    """Return side and predicate of the pivots that a constant waits for: Identity of a Switch of the predicate."""
    found = set()
    for name in nodes[start.node].controls:
        pivot = nodes.get(name)
        if pivot is not None and pivot.op == "Identity" and nodes[pivot.inputs[0].node].op in _SWITCH:
            found.add((pivot.inputs[0].index, nodes[pivot.inputs[0].node].inputs[1]))
    return found


def _extract_function(
    name: str,
    nodes: Mapping[str, Node],
    mapping: Mapping[tuple[str, int], Ref],
    arguments: list[str],
    results: list[Ref],
) -> FunctionBody:
    """Return the nodes that `results` need, with the tensors in `mapping` as arguments."""
    kept: dict[str, Node] = {}
    results = [_mapped_ref(r, mapping) for r in results]
    stack = [r.node for r in results]
    while stack:
        current = stack.pop()
        if current in kept or current not in nodes:
            continue
        node = nodes[current]
        kept[current] = replace(node, inputs=[_mapped_ref(r, mapping) for r in node.inputs], controls=[])
        stack += [r.node for r in kept[current].inputs]
    return FunctionBody(name, kept, arguments, results)


def _has_control_flow(body: FunctionBody) -> bool:
    """Return whether there is control flow that must be structured first."""
    return any(n.op in (*_ENTER, *_EXIT, *_MERGE, *_SWITCH, _CASE, *_NEXT) for n in body.nodes.values())


def _replace_references(nodes: dict[str, Node], mapping: Mapping[tuple[str, int], Ref], gone: set[str]) -> None:
    for name in gone:
        del nodes[name]
    for name, node in nodes.items():
        if any((r.node, r.index) in mapping for r in node.inputs):
            nodes[name] = replace(node, inputs=[_mapped_ref(r, mapping) for r in node.inputs])


def _mapped_ref(ref: Ref, mapping: Mapping[tuple[str, int], Ref]) -> Ref:
    return mapping.get((ref.node, ref.index), ref)


def _function_attribute(function: str) -> Any:
    value = MESSAGES["AttrValue"]()
    value.func.name = function
    return value
