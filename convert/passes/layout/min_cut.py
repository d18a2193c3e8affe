"""Chooses one of two labels for every variable exactly, as a minimum s–t cut.

Variables are numbered from 2. Numbers 0 and 1 stand for the two labels themselves (`AS_IS`, `MOVED`), so that a term
can tie a variable to a fixed label. Each connected component of variables is solved on its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

AS_IS, MOVED = 0, 1

# Capacities are int32 in scipy, and the total of a component must leave room for one larger capacity.
_BUDGET = 2**29


@dataclass(frozen=True)
class Term:
    """A price that is paid once if any of `targets` has another label than `source`.

    Ties between solutions of equal price are broken in this order:

    - the solution that pays fewer terms; `existing` transposes do not count unless they are next to a `sensitive`
      operator
    - the solution with more variables on the side of `sensitive` operators, so that what follows a convolution stays
      next to it and can be fused
    - without sensitive operators, the solution that moves fewer variables

    A `negated` term ties two variables (never a fixed label) and is paid if both have the same label.
    """

    source: int
    targets: tuple[int, ...]
    price: int
    existing: bool = False
    sensitive: bool = False
    negated: bool = False

    @property
    def free(self) -> list[int]:
        """The variables among source and targets."""
        return [x for x in (self.source, *self.targets) if x > MOVED]


def minimum_cut(count: int, terms: Sequence[Term]) -> list[bool]:
    """Return the labels (True: moved) of `count` numbers, including the fixed ones, with the smallest sum of prices.

    The result is exact if the prices of each connected component, divided by their greatest common divisor, sum to less
    than 2**28; otherwise they are rounded to that scale. An negated term that closes a cycle with an odd number of
    negated terms cannot be part of a cut. It is replaced by its upper bound: the price if the source is as is, plus the
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
    """Return the sum of the prices that `labels` pays."""
    return sum(t.price for t in terms if any((labels[t.source] == labels[x]) == t.negated for x in t.targets))


def _term_ends(term: Term, flipped: Sequence[bool]) -> tuple[int, list[int]]:
    """Return a term's source and targets in the coordinates of its component.

    If its variables are flipped, the labels are swapped.
    """
    flip = flipped[term.free[0]]
    source, *targets = (x if x > MOVED else x ^ flip for x in (term.source, *term.targets))
    return source, list(dict.fromkeys(targets))


def _add_edges(
    edges: list[tuple[int, int, int]], term: Term, price: int, infinite: int, flipped: Sequence[bool], size: int
) -> int:
    """Add the edges (from, to, capacity) of one term; return the number of vertices so far.

    With several targets, the term needs an auxiliary vertex for "a target is moved" and one for "a target is as is".
    """
    source, targets = _term_ends(term, flipped)
    moved = MOVED if MOVED in targets else targets[0] if len(targets) == 1 else size
    as_is = AS_IS if AS_IS in targets else targets[0] if len(targets) == 1 else size + 1
    found = [(source, moved, price), (as_is, source, price)]
    if len(targets) > 1:
        size += 2
        found += [(moved, t, infinite) for t in targets if moved != MOVED]
        found += [(t, as_is, infinite) for t in targets if as_is != AS_IS]
    # Edges into the source or out of the sink are never cut.
    edges += [(x, y, c) for x, y, c in found if x != y and y != AS_IS and x != MOVED]
    return size


def _flip_decision(group: Sequence[Term], flipped: Sequence[bool]) -> tuple[bool, bool]:
    """Return whether to swap the labels of a component, and whether a sensitive operator influences that.

    The label that sensitive operators want goes to the sink. Without them, *as is* goes to the source.
    """

    def fixed_ends(terms: Sequence[Term]) -> list[tuple[int, int]]:
        return [(x, x ^ flipped[t.free[0]]) for t in terms for x in (t.source, *t.targets) if x <= MOVED]

    wanted = [here for _, here in fixed_ends([t for t in group if t.sensitive])]
    if wanted:
        return wanted.count(AS_IS) > wanted.count(MOVED), True
    as_is = [here for label, here in fixed_ends(group) if label == AS_IS]
    return as_is.count(MOVED) > as_is.count(AS_IS), False


def _orient(count: int, terms: Sequence[Term]) -> tuple[list[bool], list[int], list[Term]]:
    """Return which variables to flip, the component of each variable, and the remaining terms.

    Flipping turns negated terms into ordinary ones.

    Uses a union-find whose links carry a parity: ordinary terms require equal orientation, negated ones opposite.
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

    def unite(x: int, y: int, negated: bool) -> bool:
        (a, p), (b, q) = find(x), find(y)
        if a == b:
            return (p != q) == negated
        parent[b], parity[b] = a, p ^ q ^ negated
        return True

    even: list[Term] = []
    for term in sorted(terms, key=lambda t: t.negated):
        free = term.free
        united = [unite(free[0], x, term.negated) for x in free[1:]]
        if all(united) and free:
            even.append(term)
        elif free:
            even.append(Term(MOVED, (term.source,), term.price, term.existing))
            even.append(Term(AS_IS, term.targets, term.price, term.existing))
    found = [find(x) for x in range(count)]
    return [odd for _, odd in found], [root for root, _ in found], even


def _scaled_capacities(terms: Sequence[Term]) -> list[int]:
    """Return integer capacities proportional to the prices of one component, plus one for each transpose to avoid."""
    prices = [max(1, t.price) for t in terms]
    divisor = math.gcd(*prices)
    prices = [p // divisor for p in prices]
    # `step` exceeds the number of terms, so that prices decide first.
    step = min(len(terms) + 1, max(2, _BUDGET // sum(prices)))
    total = sum(prices) * step
    if total > _BUDGET:
        prices = [max(1, p * _BUDGET // total) for p in prices]
    return [p * step + (t.sensitive or not t.existing) for p, t in zip(prices, terms, strict=True)]


def _sink_sides(size: int, edges: Sequence[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of the smallest and the largest set of vertices that a minimum cut can leave with the sink."""
    least, most = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    if not edges:
        return least, least
    if not any(x == AS_IS for x, _, _ in edges) or not any(y == MOVED for _, y, _ in edges):
        # Most graphs have no flow; they need not wait 0.2 s for the import of scipy.
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
    """Return the vertices reachable from `start`, including `start`."""
    after: dict[int, list[int]] = defaultdict(list)
    for x, y in edges:
        after[x].append(y)
    found, waiting = {start}, [start]
    while waiting:
        new = set(after[waiting.pop()]) - found
        found |= new
        waiting += new
    return found
