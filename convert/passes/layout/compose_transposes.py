"""Composes chains of Transposes and Reshapes into one Transpose between two Reshapes.

Networks have such chains for windows and patches of images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.values import Dim, dims, int64s
from convert.passes.layout.cancel import permutation

Atoms = list[list[int]]
"""For each dim of a tensor, the indices of the factors that it consists of, slowest first."""


def compose_transposes(model: ir.Model) -> bool:
    """Replace every chain of Transposes and Reshapes with more than one Transpose; return whether there was one."""
    names, modified = ModelNames(model.graph), False
    for graph in model.graphs():
        seen: set[ir.Node] = set()
        for node in list(graph):
            if node not in seen and _is_movement(node):
                row = _movement_chain(node)
                seen.update(row)
                modified |= _compose_chain(graph, row, names)
    return modified


def _compose_chain(graph: ir.Graph, row: list[ir.Node], names: ModelNames) -> bool:
    """Compose a chain, without its first Reshapes if these split a dim whose size is unknown."""
    if sum(n.op_type == "Transpose" for n in row) < 2:
        return False
    starts = next(i for i, n in enumerate(row) if n.op_type == "Transpose")
    return any(_compose(graph, row[i:], names) for i in range(starts + 1))


def _is_movement(node: ir.Node) -> bool:
    return node.domain == "" and node.op_type in ("Transpose", "Reshape")


def _movement_chain(node: ir.Node) -> list[ir.Node]:
    """Return `node` and its successors that only move elements, as long as each result has one consumer."""
    row = [node]
    while True:
        y = row[-1].outputs[0]
        readers = {use.node for use in y.uses()}
        after = readers.pop() if len(readers) == 1 and not y.is_graph_output() else None
        if after is None or not _is_movement(after) or after.inputs[0] is not y or after.graph is not node.graph:
            break
        row.append(after)
    while row and row[-1].op_type != "Transpose":  # a Reshape at the end stays unchanged
        row.pop()
    return row


class Factors:
    """The dims of one tensor, split into the factors that the following Reshapes need."""

    def __init__(self, shape: Sequence[Dim]) -> None:
        self.sizes: list[Dim] = []
        self.first: Atoms = [self._new(d) for d in shape]
        self.now: Atoms = [list(part) for part in self.first]

    def _new(self, d: Dim) -> list[int]:
        if d == 1:
            return []
        self.sizes.append(d)
        return [len(self.sizes) - 1]

    def transpose(self, perm: Sequence[int]) -> None:
        """Permute the dims."""
        self.now = [self.now[p] for p in perm]

    def reshape(self, shape: Sequence[Dim]) -> bool:
        """Distribute the factors to new dims; return False if unknown, or if a dim crosses two others."""
        left = [a for part in self.now for a in part]
        free = [i for i, d in enumerate(shape) if not isinstance(d, int) and not self._is_next(left, shape, i)]
        if len(free) > 1 or 0 in shape:
            return False
        middle = free[0] if free else len(shape)
        front, back = Atoms(), Atoms()
        for d in shape[:middle]:
            part = self._take(left, d, last=False)
            if part is None:
                return False
            front.append(part)
        for d in reversed(shape[middle + 1 :]):
            part = self._take(left, d, last=True)
            if part is None:
                return False
            back.insert(0, part)
        if not free and left:
            return False
        self.now = [*front, *([left] if free else []), *back]
        return True

    def _is_next(self, left: Sequence[int], shape: Sequence[Dim], index: int) -> bool:
        """Return whether a named dim is a factor on its own that occurs once before and once after."""
        named = [self.sizes[a] for a in left if isinstance(self.sizes[a], str)]
        return shape[index] in named and named.count(shape[index]) == 1 and list(shape).count(shape[index]) == 1

    def _take(self, left: list[int], d: Dim, *, last: bool) -> list[int] | None:
        """Remove the factors of a dim from one side of `left`; return them, or None if they do not make up the dim."""
        place = -1 if last else 0
        if not isinstance(d, int):
            return [left.pop(place)] if left and self.sizes[left[place]] == d else None
        part: list[int] = []
        while d > 1:
            size = self.sizes[left[place]] if left else None
            if not isinstance(size, int) or (d % size and size % d):
                return None
            if d % size:
                self._split(left, place, d)
                continue
            part.insert(0 if last else len(part), left.pop(place))
            d //= size
        return part

    def _split(self, left: list[int], place: int, d: int) -> None:
        """Split one factor in two; the one at the side of `place` has size `d`."""
        atom, size = left[place], self.sizes[left[place]]
        assert isinstance(size, int)
        other = len(self.sizes)
        self.sizes[atom], slow = (d, False) if place == 0 else (size // d, True)
        self.sizes.append(size // d if not slow else d)
        for atoms in (*self.first, *self.now, left):
            if atom in atoms:
                atoms.insert(atoms.index(atom) + 1, other)

    def size(self, atoms: Sequence[int]) -> Dim:
        """Return the product of factors; None if one of several is unknown."""
        sizes = [self.sizes[a] for a in atoms]
        known = [n for n in sizes if isinstance(n, int)]
        return math.prod(known) if len(known) == len(sizes) else sizes[0] if len(sizes) == 1 else None


def _compose(graph: ir.Graph, row: list[ir.Node], names: ModelNames) -> bool:
    x, y = row[0].inputs[0], row[-1].outputs[0]
    if x is None or x.shape is None or any(n.outputs[0].shape is None for n in row):
        return False
    factors = Factors(dims(x))
    for node in row:
        if node.op_type == "Transpose":
            perm = permutation(node)
            assert perm is not None
            factors.transpose(perm)
        elif not factors.reshape(dims(node.outputs[0])):
            return False
    for named in (True, False):
        made = _emit_movement(x, y, factors, *_group_factors(factors, named=named), names)
        if made is not None:
            for node in made:
                node.metadata_props.update(row[0].metadata_props)
            _replace(graph, row, made)
            return True
    return False


def _emit_movement(
    x: ir.Value, y: ir.Value, factors: Factors, before: Atoms, after: Atoms, names: ModelNames
) -> list[ir.Node] | None:
    """Return the nodes Reshape to `before`, Transpose to `after`, Reshape to y, without those that do nothing.

    Returns a single Identity if nothing is left, and None if a shape cannot be expressed.
    """
    perm = [before.index(g) for g in after]
    moves = perm != sorted(perm)
    steps = [("Reshape", before)] if moves and before != factors.first else []
    steps += [("Transpose", after)] if moves else []
    if (steps[-1][1] if steps else factors.first) != factors.now:
        steps.append(("Reshape", factors.now))
    steps = steps or [("Identity", factors.now)]
    made: list[ir.Node] = []
    value, dims = x, factors.first
    for operator, target in steps:
        node = ir.Node(
            "", operator, [value], [ir.AttrInt64s("perm", perm)] if operator == "Transpose" else [], num_outputs=1
        )
        if operator == "Reshape":
            shape = _reshape_target(factors, dims, target)
            if shape is None:
                return None
            node.resize_inputs(2)
            node.replace_input_with(1, names.array(f"{y.name}_shape", int64s(shape)))
        node.name = node.outputs[0].name = names.unique(f"{y.name}_{operator.lower()}")
        node.outputs[0].type, node.outputs[0].shape = x.type, ir.Shape([factors.size(part) for part in target])
        made.append(node)
        value, dims = node.outputs[0], target
    return made


def _group_factors(factors: Factors, *, named: bool) -> tuple[Atoms, Atoms]:
    """Merge factors that stay neighbours into groups; return the groups in their order before and after.

    With `named`, factors that are names are merged too.
    """
    first = [a for part in factors.first for a in part]
    last = [a for part in factors.now for a in part]
    groups: Atoms = []
    for atom in last:
        previous = groups[-1][-1] if groups else None
        known = previous is not None and all(isinstance(factors.sizes[a], int) for a in (previous, atom))
        if previous is not None and (named or known) and first.index(previous) + 1 == first.index(atom):
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return sorted(groups, key=lambda g: first.index(g[0])), groups


def _reshape_target(factors: Factors, before: Atoms, after: Atoms) -> list[int] | None:
    """Return the constant shape of a Reshape: 0 for a copied dim, -1 for one unknown dim; None if there are two."""
    found = []
    for i, part in enumerate(after):
        size = factors.size(part)
        copied = i < len(before) and before[i] == part
        found.append(size if isinstance(size, int) else 0 if copied else -1)
    return found if found.count(-1) < 2 else None


def _replace(graph: ir.Graph, row: list[ir.Node], made: list[ir.Node]) -> None:
    old, new = row[-1].outputs[0], made[-1].outputs[0]
    new.name, new.type, new.shape = old.name, old.type, old.shape
    ir.convenience.replace_nodes_and_values(graph, row[-1], [row[-1]], made, [old], [new])
    for node in reversed(row[:-1]):
        graph.remove(node, safe=True)
