"""The exact choice of one of two labels for every variable, as a minimum s–t cut.

Variables are numbered from 2; numbers 0 and 1 stand for the two labels themselves (`AS_IS`, `MOVED`), so that a term
can tie a variable to a fixed label. Every component of variables that terms connect is a problem of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

AS_IS, MOVED = 0, 1

# Capacities are int32 in scipy, and a component's total must leave room for one capacity above all others.
_BUDGET = 2**29


@dataclass(frozen=True)
class Term:
    """`price` is paid once if any of `targets` has a label other than that of `source`.

    Among solutions of equal price the one that pays fewer terms wins, not counting `existing` transposes; then the one
    that has more variables on the side of `sensitive` operators, so that what follows a convolution stays next to it
    and can be fused (a transpose of which a sensitive operator is neighbour is as good as new). Without such operators
    nothing moves that need not. An `opposed` term ties two variables (never a fixed label) and is paid if both have the
    same label.
    """

    source: int
    targets: tuple[int, ...]
    price: int
    existing: bool = False
    sensitive: bool = False
    opposed: bool = False

    @property
    def free(self) -> list[int]:
        """The variables among its ends."""
        return [x for x in (self.source, *self.targets) if x > MOVED]


def minimum_cut(count: int, terms: Sequence[Term]) -> list[bool]:
    """Labels (True: moved) of `count` numbers, fixed ones included, for which the sum of prices is least.

    Exact as long as the prices of one connected component, divided by their greatest common divisor, sum to less than
    2**28; beyond, they are rounded to that scale. An opposed term between variables that other terms keep on one side
    (a cycle with an odd number of opposed terms) is replaced by its upper bound: price if the source is as is, and
    price if the target is moved.
    """
    flipped, component, terms = _orient(count, terms)
    groups: dict[int, list[Term]] = defaultdict(list)
    for term in terms:
        groups[component[term.free[0]]].append(term)
    edges: list[tuple[int, int, int]] = []
    eager = set()
    size = count
    for root, group in groups.items():
        turn, pulled = _flip_decision(group, flipped)
        if turn:
            for x in {x for term in group for x in term.free}:
                flipped[x] = not flipped[x]
        if pulled:
            eager.add(root)
        prices = _scaled_capacities(group)
        infinite = sum(prices) + 1
        for term, price in zip(group, prices, strict=True):
            size = _add_edges(edges, term, price, infinite, flipped, size)
    least, most = _sink_sides(size, edges)
    side = [most[i] if component[i] in eager else least[i] for i in range(count)]
    return [i == MOVED if i <= MOVED else bool(side[i] != flipped[i]) for i in range(count)]


def labeling_cost(labels: Sequence[bool], terms: Sequence[Term]) -> int:
    """The sum of the prices that `labels` pays."""
    return sum(t.price for t in terms if any((labels[t.source] == labels[x]) == t.opposed for x in t.targets))


def _term_ends(term: Term, flipped: Sequence[bool]) -> tuple[int, list[int]]:
    """A term's ends in the coordinates of its component, where a flipped variable sees the labels exchanged."""
    flip = flipped[term.free[0]]
    source, *targets = (x if x > MOVED else x ^ flip for x in (term.source, *term.targets))
    return source, list(dict.fromkeys(targets))


def _add_edges(
    edges: list[tuple[int, int, int]], term: Term, price: int, infinite: int, flipped: Sequence[bool], size: int
) -> int:
    """Edges (from, to, capacity) of one term; returns the number of vertices so far.

    With several targets it takes one auxiliary vertex for "a target is moved" and one for "a target is as is".
    """
    source, targets = _term_ends(term, flipped)
    moved = MOVED if MOVED in targets else targets[0] if len(targets) == 1 else size
    as_is = AS_IS if AS_IS in targets else targets[0] if len(targets) == 1 else size + 1
    found = [(source, moved, price), (as_is, source, price)]
    if len(targets) > 1:
        size += 2
        found += [(moved, t, infinite) for t in targets if moved != MOVED]
        found += [(t, as_is, infinite) for t in targets if as_is != AS_IS]
    # What enters the source or leaves the sink is never cut.
    edges += [(x, y, c) for x, y, c in found if x != y and y != AS_IS and x != MOVED]
    return size


def _flip_decision(group: Sequence[Term], flipped: Sequence[bool]) -> tuple[bool, bool]:
    """Whether to exchange the labels in a component, and whether a sensitive operator has a say in it.

    The label that sensitive operators want goes to the sink; where there are none, as is goes to the source.
    """

    def fixed_ends(terms: Sequence[Term]) -> list[tuple[int, int]]:
        return [(x, x ^ flipped[t.free[0]]) for t in terms for x in (t.source, *t.targets) if x <= MOVED]

    wanted = [here for _, here in fixed_ends([t for t in group if t.sensitive])]
    if wanted:
        return wanted.count(AS_IS) > wanted.count(MOVED), True
    as_is = [here for label, here in fixed_ends(group) if label == AS_IS]
    return as_is.count(MOVED) > as_is.count(AS_IS), False


def _orient(count: int, terms: Sequence[Term]) -> tuple[list[bool], list[int], list[Term]]:
    """Which variables to flip so that opposed terms become ordinary ones, the component of each, and the terms left.

    A union-find whose links carry a parity: ordinary terms ask for the same orientation, opposed ones for opposite.
    """
    parent = list(range(count))
    parity = [False] * count

    def find(x: int) -> tuple[int, bool]:
        path = []
        while parent[x] != x:
            path.append(x)
            x = parent[x]
        odd = False
        for y in reversed(path):
            odd ^= parity[y]
            parent[y], parity[y] = x, odd
        return x, odd

    def unite(x: int, y: int, opposed: bool) -> bool:
        (a, p), (b, q) = find(x), find(y)
        if a == b:
            return (p != q) == opposed
        parent[b], parity[b] = a, p ^ q ^ opposed
        return True

    even: list[Term] = []
    for term in sorted(terms, key=lambda t: t.opposed):
        free = term.free
        united = [unite(free[0], x, term.opposed) for x in free[1:]]
        if all(united) and free:
            even.append(term)
        elif free:
            even.append(Term(MOVED, (term.source,), term.price, term.existing))
            even.append(Term(AS_IS, term.targets, term.price, term.existing))
    found = [find(x) for x in range(count)]
    return [odd for _, odd in found], [root for root, _ in found], even


def _scaled_capacities(terms: Sequence[Term]) -> list[int]:
    """Integer capacities in proportion to the prices of one component, plus one for each transpose to avoid."""
    prices = [max(1, t.price) for t in terms]
    divisor = math.gcd(*prices)
    prices = [p // divisor for p in prices]
    # `step` above the number of terms lets prices decide first.
    step = min(len(terms) + 1, max(2, _BUDGET // sum(prices)))
    total = sum(prices) * step
    if total > _BUDGET:
        prices = [max(1, p * _BUDGET // total) for p in prices]
    return [p * step + (t.sensitive or not t.existing) for p, t in zip(prices, terms, strict=True)]


def _sink_sides(size: int, edges: Sequence[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the least and the greatest set of vertices that a minimum cut can leave with the sink."""
    least, most = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    if not edges:
        return least, least
    if not any(x == AS_IS for x, _, _ in edges) or not any(y == MOVED for _, y, _ in edges):
        # Nothing flows, as in most graphs. scipy takes a fifth of a second to import, which they need not wait for.
        least[list(_reached(MOVED, [(y, x) for x, y, c in edges if c]))] = True
        most[list(_reached(AS_IS, [(x, y) for x, y, c in edges if c]))] = False
        return least, most
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    rows, columns, capacities = np.array(edges).T
    graph = csr_array((capacities.astype(np.int32), (rows, columns)), shape=(size, size))
    graph.indices = graph.indices.astype(np.int32)
    graph.indptr = graph.indptr.astype(np.int32)
    residual = graph - maximum_flow(graph, AS_IS, MOVED).flow
    residual.eliminate_zeros()
    least[breadth_first_order(residual.T.tocsr(), MOVED, return_predecessors=False)] = True
    most[breadth_first_order(residual, AS_IS, return_predecessors=False)] = False
    return least, most


def _reached(start: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    """The vertices to which a path leads from `start`, itself among them."""
    after: dict[int, list[int]] = defaultdict(list)
    for x, y in edges:
        after[x].append(y)
    found, waiting = {start}, [start]
    while waiting:
        new = set(after[waiting.pop()]) - found
        found |= new
        waiting += new
    return found
