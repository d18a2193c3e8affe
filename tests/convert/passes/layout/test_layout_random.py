"""The layout pass on random graphs: the cut is the cheapest assignment, and the numbers stay."""

from __future__ import annotations

import itertools
import time

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.passes.layout.assign import AS_IS, MOVED, Term, assign_layout, build_problem
from convert.passes.layout.min_cut import labeling_cost, minimum_cut
from convert.passes.layout.model import channels_first, channels_last
from convert.passes.layout.sensitive import SENSITIVE
from convert.passes.layout.table import AGNOSTIC
from tests.support.layout_support import check, conv, nodes, weights
from tests.support.marks import slow

F = ir.DataType.FLOAT
LAST = {**AGNOSTIC, **SENSITIVE}


def cheapest(count: int, terms: list[Term]) -> int:
    """Return the smallest cost over all labels, by trying each."""
    free = itertools.product((False, True), repeat=count - 2)
    return min(labeling_cost([False, True, *labels], terms) for labels in free)


@pytest.mark.parametrize("seed", range(150))
def test_cut_is_the_cheapest_assignment(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 2 + int(rng.integers(1, 9))
    side = rng.integers(0, 2, count) if seed % 2 else np.zeros(count, int)  # negated terms link the two sides
    terms = []
    for _ in range(rng.integers(1, 14)):
        source, *targets = (int(x) for x in rng.integers(0, count, rng.integers(2, 5)))
        price = int(rng.integers(1, 6)) if seed % 3 else int(rng.integers(1, 2**34))
        free = [x for x in (source, *targets) if x > MOVED]
        flags = [bool(b) for b in rng.integers(0, 2, 2)]
        if len({side[x] for x in free}) < 2:
            terms.append(Term(source, tuple(targets), price, *flags))
        elif source > MOVED and targets[0] > MOVED and side[source] != side[targets[0]]:
            terms.append(Term(source, (targets[0],), price, *flags, negated=True))
    labels = minimum_cut(count, terms)
    assert labels[:2] == [False, True]
    best = cheapest(count, terms)
    # Prices beyond 2**28 in one component are rounded to that scale.
    assert best <= labeling_cost(labels, terms) <= best + (0 if seed % 3 else len(terms) * 2**10)


def test_ties_go_to_existing_transposes_and_to_sensitive_operators() -> None:
    x, y = 2, 3
    chain = [Term(MOVED, (x,), 5), Term(x, (y,), 5), Term(y, (AS_IS,), 5)]
    assert minimum_cut(4, chain)[2:] == [False, False]
    near = [Term(MOVED, (x,), 5, sensitive=True), *chain[1:]]
    assert minimum_cut(4, near)[2:] == [True, True]
    existing = [chain[0], Term(x, (y,), 5, existing=True), chain[2]]
    assert minimum_cut(4, existing)[2:] == [True, False]


def test_cycle_with_one_opposed_term() -> None:
    terms = [Term(2, (3,), 10, negated=True), Term(2, (3,), 3), Term(AS_IS, (2,), 1)]
    labels = minimum_cut(4, terms)
    assert labeling_cost(labels, terms) <= 10


def random_graph(rng: np.random.Generator, steps: int, last: bool) -> Graph:
    """Return operators of all kinds on values of one batch, [2, 4, 6, 6] or [2, 6, 6, 4] or shapes derived from
    these.
    """
    g = Graph()
    c = 1 if last else 3
    shape = [2, 4, 6, 6] if last else [2, 6, 6, 4]
    values = [g.input("x", F, shape)]

    def step() -> ir.Value:
        x, y = (values[i] for i in rng.integers(max(0, len(values) - 4), len(values), 2))
        kind = rng.integers(0, 14)
        axis = int(rng.integers(1, 4))
        if kind < 3:
            z = x if last else g.Transpose(x, perm=[0, 3, 1, 2])
            z = conv(g, z, 4) if kind < 2 else g.MaxPool(z, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            return z if last else g.Transpose(z, perm=[0, 2, 3, 1])
        if kind == 3:
            return g.Add(x, y)
        if kind == 4:
            return g.Mul(x, g.ReduceMean(y, [axis], keepdims=1))
        if kind == 5:
            return g.Slice(g.Concat(x, y, axis=axis), [0], [g.shape(x)[axis]], [axis])
        if kind == 6:
            return g.Softmax(x, axis=axis)
        if kind == 7:
            return g.Transpose(g.Transpose(x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
        if kind == 8:
            return g.Transpose(g.Relu(g.Transpose(x, perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1])
        if kind == 9:
            return g.Reshape(g.Neg(g.Reshape(x, [0, g.shape(x)[1], -1])), g.shape(x))
        if kind == 10:
            flat = g.Reshape(x, [2, *([4, 36] if last else [36, 4])])
            return g.Reshape(g.Transpose(g.Exp(g.Transpose(flat, perm=[0, 2, 1])), perm=[0, 2, 1]), g.shape(x))
        if kind == 11:
            return g.MatMul(x, weights(g.shape(x)[-1], g.shape(x)[-1]))
        if kind == 12:
            mean = g.ReduceMean(x, [a for a in (1, 2, 3) if a != c], keepdims=0)
            return g.Sub(y, g.Unsqueeze(mean, [2, 3] if last else [1, 2]))
        return g.Sub(x, g.Slice(g.ReduceMean(y, [0], keepdims=0), [0], [1], [axis - 1]))

    for _ in range(steps):
        values.append(g.Tanh(step()) if rng.random() < 0.5 else step())
    for i, value in enumerate(dict.fromkeys([values[-1], *(values[i] for i in rng.integers(0, len(values), 2))])):
        g.output(value, f"y{i}")
    return g


def moved_bytes(model: ir.Model, skip: tuple[tuple[int, ...], ...] = ()) -> int:
    """Return the bytes that the transposes of a model move, except permutations in `skip`."""
    total = 0
    for node in nodes(model, "Transpose"):
        perm, shape = node.attributes.get_ints("perm"), node.inputs[0].shape.numpy()
        long = [a for a in perm if shape[a] != 1]
        if long != sorted(long) and tuple(perm) not in skip:
            total += 4 * int(np.prod(shape))
    return total


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("seed", slow(range(40), *range(10, 40)))
def test_random_graph(seed: int, last: bool) -> None:
    g = random_graph(np.random.default_rng([seed, last]), 3 + seed // 2, last)
    model = g.model()
    before = ir.to_proto(model)
    move, table = (channels_last, LAST) if last else (channels_first, AGNOSTIC)
    problem = build_problem(model.graph, move, table, False)
    price = labeling_cost(minimum_cut(problem.count, problem.terms), problem.terms)
    if problem.count <= 12:
        assert price == cheapest(problem.count, problem.terms)
    sensitive = "channels_last" if last else "as is"
    g.graph = ir.from_proto(before).graph
    check(g, {}, sensitive=sensitive, modified=None)
    assign_layout(model, sensitive=sensitive)
    # Permutations that do not move channels cost the same for all labels.
    others = moved_bytes(ir.from_proto(before), (channels_last(4), channels_first(4), (0, 2, 1)))
    assert moved_bytes(model) <= price + others


@pytest.mark.slow
def test_chain_of_ten_thousand_nodes() -> None:
    rng, shape = np.random.default_rng(0), [None, 4, 8, 8]
    x = value = skip = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape(shape))
    filters = ir.Value(name="filters", const_value=ir.Tensor(weights(4, 4, 1, 1)), shape=ir.Shape([4, 4, 1, 1]))
    matrix = ir.Value(name="matrix", const_value=ir.Tensor(weights(8, 8)), shape=ir.Shape([8, 8]))
    chain: list[ir.Node] = []
    for kind in rng.choice(["Relu", "Conv", "Add", "MatMul"], 10_000, p=[0.8, 0.1, 0.05, 0.05]):
        more = {"Conv": [filters], "MatMul": [matrix], "Add": [skip]}.get(kind, [])
        chain.append(ir.Node("", kind, [value, *more], num_outputs=1))
        value = chain[-1].outputs[0]
        value.type, value.shape = x.type, ir.Shape(shape)
        skip = value if kind == "Add" else skip
    graph = ir.Graph([x], [value], nodes=chain, initializers=[filters, matrix], opset_imports={"": 23})
    model = ir.Model(graph, ir_version=10)
    began = time.process_time()
    assert assign_layout(model, sensitive="channels_last")
    print(f"layout of {len(chain)} nodes: {time.process_time() - began:.2f} CPU s")
    count = len(nodes(model, "MatMul"))
    assert count > 400
    assert 0 < len(nodes(model, "Transpose")) <= 2 * count + 2
