"""Messages about the weights of two artefacts, on graphs that hold nothing else."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from convert.cli import render
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, Verdict, WeightDifference
from convert.parity.pairing.weights import _apart, describe_weights, weight_differences

RNG = np.random.default_rng(3)
W = RNG.standard_normal((4, 3)).astype(np.float32)
V = RNG.standard_normal((5, 2)).astype(np.float32)
LARGE = np.linspace(1, 2, 2000).astype(np.float32).reshape(40, 50)


def holding(*constants: str, **arrays: Any) -> ir.Model:
    """Return a graph whose outputs are these weights; those in `constants` are outputs of Constant nodes."""
    graph = ir.Graph([], [], nodes=[], opset_imports={"": 23})
    for name, content in arrays.items():
        tensor = ir.Tensor(np.asarray(content), name=name)
        if name in constants:
            node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
            node.outputs[0].name = name
            graph.append(node)
            continue
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        graph.register_initializer(value)
        graph.outputs.append(value)
    return ir.Model(graph, ir_version=10)


def described(left: ir.Model, right: ir.Model) -> str:
    return describe_weights(left, right, ("one", "two"))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"w": W, "v": V}, {"w": W, "v": V}),
        ({"w": W, "v": V}, {"v": W, "w": V}),
        ({"w": W, "v": V}, {"w": W.T, "v": np.ravel(V)}),
        ({"w": W, "v": V}, {"a": W.T, "b": V.T}),
        ({"w": W}, {"w": W * np.float32(1 + 5e-6)}),
        ({"w": W}, {"a": W * np.float32(1 + 5e-6)}),
        ({"w": W.astype(np.float16)}, {"w": W.astype(np.float16).astype(np.float32)}),
        ({"w": W.astype(ml_dtypes.bfloat16)}, {"a": W.astype(ml_dtypes.bfloat16).astype(np.float32).T}),
        ({"w": np.array([0.0, 1.0], np.float32)}, {"a": np.array([1.0, -0.0], np.float32)}),
        ({"w": W, "n": np.arange(5)}, {"w": W, "n": np.arange(6)}),
        ({"w": W, "e": np.zeros(0, np.float32)}, {"w": W}),
        ({"w": W, "s": np.float32(2.0)}, {"w": W, "t": np.float32(3.0)}),
        ({"w": W, "s": np.float32(2.0)}, {"w": W, "s": RNG.standard_normal(2).astype(np.float32)}),
        ({"w": W}, {"w": W, "v": V}),
        ({"w": LARGE}, {"w": LARGE * np.float32(1 + 5e-6)}),
        ({"w": LARGE}, {"a": LARGE * np.float32(1 + 5e-6)}),
        ({}, {"w": W}),
    ],
    ids=[
        "same", "names swapped", "transposed", "transposed, other names", "rounded", "rounded, other names", "halves",
        "bfloat16", "minus zero", "integers", "empty", "single numbers of other names", "a single number and a row",
        "more on the right", "large, rounded", "large, rounded, other names", "none",
    ],
)  # fmt: skip
def test_the_same_numbers_are_the_same_weights(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert described(holding(**left), holding(**right)) == ""


@pytest.mark.parametrize("share", [2e-5, 0.05, 0.5])
@pytest.mark.parametrize("name", ["w", "another"])
def test_others_are_named_with_how_far_they_are_apart(share: float, name: str) -> None:
    """Weights are paired by name, or by size if each side has one weight of that size. The share is relative to the
    left weight.
    """
    found = described(holding(w=W, v=V), holding(**{name: W * np.float32(1 + share)}, v=V))
    assert found == f"weights differ: 1 of 2 tensors (w by {share:.2g} of its size)"


def test_weights_of_other_names_are_paired_by_their_own_size() -> None:
    """Each size occurs once on each side, with smaller and larger tensors next to it."""
    left, right = {"a": V, "b": W, "c": LARGE}, {"x": V * np.float32(1.25), "y": W * np.float32(1.5), "z": LARGE * 2}
    told = ["a by 0.25 of its size", "b by 0.5 of its size", "c by 1 of its size"]
    for way in (1, -1):
        found = described(holding(**dict([*left.items()][::way])), holding(**right))
        assert found == f"weights differ: 3 of 3 tensors ({', '.join(told[::way])})"


@pytest.mark.parametrize(
    ("shape", "turned"), [((6, 6), True), ((3, 12), False), ((6, 1, 6), False), ((3, 3, 4), False)]
)
def test_only_squares_are_turned_round(shape: tuple[int, ...], turned: bool) -> None:
    """Weights that are not square are compared element by element."""
    one = np.arange(36, dtype=np.float32)
    other = np.ravel(one.reshape(shape[::-1]).T)
    apart = _apart(one, other, shape, shape)
    assert apart.tolist() == ([0] * 36 if turned else np.abs(one - other).tolist())
    assert _apart(one, one, shape, shape).max() == 0


def test_weights_of_one_name_and_of_other_sizes_are_not_compared() -> None:
    for sides in ((W, V), (V, W), (LARGE, W), (W, LARGE)):
        left, right = (holding(w=array) for array in sides)
        assert weight_differences(left, right) == []
        assert described(left, right).startswith("weights differ: 1 of 1 tensors (w), 1 without a counterpart in two")


def test_large_weights_are_told_as_well() -> None:
    sides = holding(w=LARGE), holding(w=LARGE * np.float32(1.25))
    assert described(*sides) == "weights differ: 1 of 1 tensors (w by 0.25 of its size)"
    (row,) = weight_differences(*sides)
    assert (row.name, row.shape, row.size, row.elements) == ("w", (40, 50), 2000, 2000)
    assert described(sides[0], holding(a=sides[1].graph.initializers["w"].const_value.numpy())) == described(*sides)


def test_how_far_is_said_of_the_nearest_order() -> None:
    changed = (W.T * np.float32(1.25)).copy()
    assert described(holding(w=W), holding(w=changed)) == "weights differ: 1 of 1 tensors (w by 0.25 of its size)"


def test_the_sentence_and_the_table_say_one_number() -> None:
    """One changed number seems nearer in sorted order, with others in between; a square may be transposed."""
    one = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    other = one.copy()
    other[0, 0] = 6
    for left, right in ((one, other), (one[:2], other[:2]), (one, other.T.copy())):
        (row,) = weight_differences(holding(w=left), holding(w=right))
        assert (row.elements, row.largest) == (1, pytest.approx(5 / np.sqrt(np.mean(np.square(left)))))
        found = described(holding(w=left), holding(w=right))
        assert found == f"weights differ: 1 of 1 tensors (w by {row.distance:.2g} of its size)"


def test_single_numbers_count_by_their_name() -> None:
    found = described(holding(w=W, s=np.float32(2.0)), holding(w=W, s=np.float32(3.0)))
    assert found == "weights differ: 1 of 2 tensors (s by 0.5 of its size)"


def test_zeros_are_infinitely_far_from_others() -> None:
    found = described(holding(w=np.zeros(2, np.float32)), holding(w=np.ones(2, np.float32)))
    assert float(found.partition(" by ")[2].split()[0]) > 1e30


def test_weights_without_a_counterpart_are_counted() -> None:
    found = described(holding(w=W, v=V), holding(w=W, v=V[:4]))
    assert found == (
        "weights differ: 1 of 2 tensors (v), 1 without a counterpart in two, which may have folded or rearranged them"
    )
    # The left has two weights of that size and the right has one, so the pair is unknown.
    found = described(holding(a=W, b=2 * W), holding(c=3 * W))
    assert found.startswith("weights differ: 2 of 2 tensors (a, b), 2 without a counterpart in two")


def test_as_many_of_one_size_are_paired_in_order() -> None:
    found = described(holding(a=W, b=2 * W), holding(c=1.5 * W, d=2.5 * W))
    assert found == "weights differ: 2 of 2 tensors (a by 0.5 of its size, b by 0.25 of its size)"
    # Names are matched before positions, and each tensor is matched once.
    found = described(holding(a=W, b=2 * W), holding(b=3 * W, a=1.5 * W))
    assert found == "weights differ: 2 of 2 tensors (a by 0.5 of its size, b by 0.5 of its size)"


@pytest.mark.parametrize("count", [5, 6, 8])
def test_five_are_named_at_most(count: int) -> None:
    sizes = range(2, 2 + count)
    left = holding(**{f"w{n}": np.ones(n, np.float32) for n in sizes})
    found = described(left, holding(**{f"w{n}": np.full(n, 1.5, np.float32) for n in sizes}))
    named = ", ".join(f"w{n} by 0.5 of its size" for n in range(2, 7))
    more = f" and {count - 5} more" if count > 5 else ""
    assert found == f"weights differ: {count} of {count} tensors ({named}{more})"


def test_numbers_of_constant_nodes_and_of_bodies_are_weights() -> None:
    other = holding(w=1.5 * W)
    assert described(holding("w", w=W), other) == "weights differ: 1 of 1 tensors (w by 0.5 of its size)"
    assert described(other, holding("w", w=1.5 * W)) == ""
    inner = holding("w", w=W).graph
    node = ir.Node("", "If", [ir.Value(name="c")], [ir.AttrGraph("then_branch", inner)])
    outer = ir.Model(ir.Graph([], [], nodes=[node], opset_imports={"": 23}), ir_version=10)
    assert described(outer, other) == "weights differ: 1 of 1 tensors (w by 0.5 of its size)"


def test_two_equal_weights_need_two_counterparts() -> None:
    assert described(holding(a=W, b=W), holding(c=W, d=W.T)) == ""
    found = described(holding(a=W, b=W), holding(c=W))
    assert found.startswith("weights differ: 1 of 2 tensors (b), 1 without")


def test_a_row_for_each_that_both_have_by_one_name() -> None:
    one, other = W.copy(), W.copy()
    other[1, 2] += 1
    far = np.array([3.0, 4.0], np.float32)
    left = holding(w=one, v=V, f=far, only=V + 1, s=W)
    right = holding(w=other, v=V, f=far * 2, elsewhere=V + 2, s=(W.T * np.float32(1.5)).copy())
    rows = weight_differences(left, right)
    assert [(r.name, r.shape, r.size, r.elements) for r in rows] == [
        ("f", (2,), 2, 2), ("s", (4, 3), 12, None), ("w", (4, 3), 12, 1)
    ]  # fmt: skip
    size = np.sqrt(np.mean(np.square(W, dtype=np.float64)))
    assert rows[0].distance == pytest.approx(1.0)
    assert rows[0].largest == pytest.approx(4 / np.sqrt(12.5))
    assert rows[1].distance == pytest.approx(0.5)
    assert rows[2].distance == pytest.approx(1 / np.sqrt(12) / size)
    assert rows[2].largest == pytest.approx(1 / size)
    many = {f"n{i:02}": W for i in range(15)}
    found = weight_differences(holding(**many), holding(**{n: W * np.float32(2) for n in many}))
    assert [r.name for r in found] == [f"n{i:02}" for i in range(10)]
    assert weight_differences(holding(w=W), holding(w=W.T.copy())) == []


def test_the_table_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = WeightDifference("conv.weight", (4, 3, 1, 1), 12, 0.25, 1.5, 3)
    render.report(Report("verify", verdict=Verdict(FAIL, "weights differ", weights=[row])), quiet=True, verbose=0)
    told = capsys.readouterr().out.splitlines()
    assert told[1:] == [
        "  weights that differ  shape      elements  by, of its size  at most",
        "  conv.weight          [4,3,1,1]  3 of 12   0.25             1.5",
    ]
