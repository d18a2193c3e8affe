"""Broadcasts of many groups of dims: the same numbers in onnxruntime, in no more groups than TensorFlow supports."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.legalize.broadcasts import choose_broadcasts, split_broadcasts

F = ir.DataType.FLOAT
EVEN, ODD = (2, 1, 3, 1, 2, 1, 4, 1, 2), (1, 3, 1, 2, 1, 2, 1, 3, 1)


def model(*shapes, operator: str = "Mul") -> ir.Model:
    g = Graph()
    dtypes = [ir.DataType.BOOL if operator == "Where" and i == 0 else F for i in range(len(shapes))]
    inputs = [g.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=True))]
    g.output(getattr(g, operator)(*inputs), "y")
    return g.model()


def groups(shapes: list[tuple[int, ...]]) -> int:
    """Return groups of consecutive dims in which the same operands have a length of 1; dims that are 1 in all are
    ignored.
    """
    full = max(map(len, shapes))
    by_axis = zip(*((1,) * (full - len(shape)) + shape for shape in shapes), strict=True)
    return len(list(groupby(tuple(d == 1 for d in lengths) for lengths in by_axis if set(lengths) != {1})))


def run(made: ir.Model, feeds: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Return the output, and the groups of each broadcasting node at run time."""
    proto = ir.to_proto(made)
    proto.opset_import[0].version = 20
    shown = sorted({name for node in proto.graph.node for name in node.input} - {v.name for v in proto.graph.output})
    known = {v.name for v in proto.graph.input}
    proto.graph.output.extend(type(proto.graph.output[0])(name=name) for name in shown if name not in known)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    fed = {f"x{i}": feed for i, feed in enumerate(feeds)}
    values = dict(zip([o.name for o in session.get_outputs()], session.run(None, fed), strict=True)) | fed
    found = []
    for node in proto.graph.node:
        if node.op_type == "Expand":
            found.append(groups([values[node.input[0]].shape, tuple(values[node.input[1]])]))
        elif node.op_type not in ("Shape", "Concat"):
            found.append(groups([values[name].shape for name in node.input]))
    return values["y"], found


def named(shape: tuple[int, ...], mark: str) -> list[int | str]:
    return [1 if d == 1 else f"{mark}{i}" for i, d in enumerate(shape)]


CASES = {
    "six dims": ("Mul", [EVEN[:6], ODD[:6]], 5),
    "nine dims": ("Mul", [EVEN, ODD], 5),
    "of a lower rank": ("Sub", [EVEN[:7], ODD[1:7]], 5),
    "of three": ("Max", [EVEN[:6], ODD[:6], (2, 1)], 5),
    "of a choice": ("Where", [EVEN, ODD, (2,)], 8),
}


@pytest.mark.parametrize("known", ["numbers", "names", "nothing"])
@pytest.mark.parametrize("name", CASES)
def test_broadcasts_are_split(name: str, known: str) -> None:
    operator, shapes, most = CASES[name]
    dims = {
        "numbers": shapes,
        "names": [named(shape, mark) for shape, mark in zip(shapes, "abc", strict=False)],
        "nothing": [[None] * len(shape) for shape in shapes],
    }[known]
    random = np.random.default_rng(0)
    feeds = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    if operator == "Where":
        feeds[0] = feeds[0] > 0
    made = model(*dims, operator=operator)
    before, (found,) = run(made, feeds)
    assert found > most
    assert split_broadcasts(made)
    after, found_now = run(made, feeds)
    np.testing.assert_array_equal(after, before)
    assert max(found_now[:-1]) <= 5
    assert found_now[-1] <= most
    assert not split_broadcasts(made)


@pytest.mark.parametrize(
    ("shapes", "equal"),
    [
        ([EVEN[:5], ODD[:5]], False),
        ([(2, 3, 1, 1, 2, 3), (1, 1, 4, 5, 1, 1)], False),
        ([("a", "b", "c", "d", "e", "f"), ("a", "b", "c", "d", "e", "f")], False),
        ([("a", "b", "c", "d", "e", "f"), ("g", "h", "i", "j", "k", "l")], True),
        ([("a", "b", 3, 4, 5, 6, 7), ("g", "h", 3, 4, 5, 6, 7)], False),
        ([None, EVEN], False),
    ],
)
def test_others_are_left_alone(shapes, equal) -> None:
    assert not split_broadcasts(model(*shapes), equal=equal)


@pytest.mark.parametrize("operator", ["Mul", "Max"])
@pytest.mark.parametrize("shapes", [(EVEN[:6], ODD[:6]), (EVEN[1:7], EVEN[1:7]), (EVEN[:6], (1, 0, 1, 2, 1, 2))])
def test_operands_are_repeated_without_sizes(operator, shapes) -> None:
    """Operands are repeated by the lengths of the other operands, up to the number of dims that Select supports."""
    feeds = [np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes]
    feeds[0].flat[0] = np.nan
    made = model("abcdef", "ghijkl", operator=operator)
    before, _ = run(made, feeds)
    assert choose_broadcasts(made)
    assert [n.op_type for n in made.graph] == ["Cast", "Where", "Cast", "Where", operator]
    after, found = run(made, feeds)
    np.testing.assert_array_equal(after, before)
    assert found[-1] <= 1
    assert not choose_broadcasts(made)


def test_nine_dims_of_dynamic_size_are_refused() -> None:
    made = model("abcdefghi", "jklmnopqr")
    with pytest.raises(Unsupported, match="9 dynamic sizes") as caught:
        choose_broadcasts(made)
    assert caught.value.problems[0].at.operator == "Mul"
    assert choose_broadcasts(model("abcdefgh", "jklmnopq"))
