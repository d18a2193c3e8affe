"""The pairing of two artefacts' inputs and outputs, and the sizes at which both run, on graphs without nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import UsageError
from convert.graph.claims import CLAIMS_KEY, Claims
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.parity.pairing.counterparts import Counterparts, find_counterparts, narrow_calls, narrow_dims
from convert.request.naming import Names
from tests.support.work import at_most_calls

F, D, I64, I32, STRING = (
    ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64, ir.DataType.INT32, ir.DataType.STRING
)  # fmt: skip
End = tuple[str, ir.DataType | None, Sequence[int | str | None] | None]
NAMES = ("one", "two")


def value(name: str, dtype: ir.DataType | None, dims: Sequence[int | str | None] | None) -> ir.Value:
    shape = None if dims is None else ir.Shape(dims)
    return ir.Value(name=name, type=None if dtype is None else ir.TensorType(dtype), shape=shape)


def ends(inputs: Sequence[End], outputs: Sequence[End], bounds: Mapping[str, Any] | None = None) -> ir.Model:
    graph = ir.Graph([value(*e) for e in inputs], [value(*e) for e in outputs], nodes=[], opset_imports={"": 23})
    model = ir.Model(graph, ir_version=10)
    if bounds:
        model.metadata_props[DIMS_KEY] = json.dumps(bounds)
    return model


def named(*names: str, dims: Sequence[int | str | None] = ("n", 4), dtype: ir.DataType = F) -> list[End]:
    return [(n, dtype, dims) for n in names]


def paired(
    left: ir.Model, right: ir.Model, given: Mapping[str, str] | None = None, layout: str = "", made: Names | None = None
) -> Counterparts:
    return find_counterparts(left, right, given or {}, layout, NAMES, made or Names())


def test_the_same_names_pair_in_any_order_without_a_note() -> None:
    found = paired(ends(named("a", "b"), named("y", "z")), ends(named("b", "a"), named("z", "y")))
    assert (found.inputs, found.outputs) == ({"a": "a", "b": "b"}, {"y": "y", "z": "z"})
    assert (list(found.inputs), found.order, found.kept) == (["a", "b"], ["z", "y"], [0, 1])
    assert (found.notes, found.dtypes) == ([], {})


@pytest.mark.parametrize("other", ["A:0", "serving_default_a", "serving_default_a:0", "a"])
def test_what_tensorflow_makes_of_a_name_is_that_name(other: str) -> None:
    found = paired(ends(named("b", "a"), named("y")), ends(named(other, "b"), named("y")))
    assert found.inputs == {"b": "b", "a": other}
    assert found.notes == ([] if other == "a" else [f"input 'a' is paired with {other!r}"])


def test_odd_characters_are_underscores() -> None:
    found = paired(ends(named("x.1", "y/2"), named("out")), ends(named("y_2", "x_1"), named("out")))
    assert found.inputs == {"x.1": "x_1", "y/2": "y_2"}


@pytest.mark.parametrize("other", ["a:1", "aserving_default_", "a:0b"])
def test_a_number_or_a_prefix_elsewhere_is_of_the_name(other: str) -> None:
    found = paired(ends(named("b", "a"), named("y")), ends(named(other, "c"), named("y")))
    assert found.inputs == {"b": other, "a": "c"}
    assert found.notes == [
        f"inputs paired by place, because the names differ: b = {other}, a = c (--map left=right says otherwise)"
    ]


def test_two_names_of_one_plain_form_are_not_taken_for_it() -> None:
    """Either of the two names may be meant, so the position must decide."""
    found = paired(ends(named("k", "x.0", "x/0"), named("y")), ends(named("z", "x_0", "k"), named("y")))
    assert found.inputs == {"k": "k", "x.0": "z", "x/0": "x_0"}
    assert found.notes[0].startswith("inputs paired by place, because the names differ: x.0 = z, x/0 = x_0 ")


def test_what_the_writer_would_call_them_counts_where_it_explains_all() -> None:
    left, right = ends(named("a", "b"), named("y")), ends(named("n1", "n0"), named("y"))
    made = Names({"a": "n0", "b": "n1"}, {})
    assert paired(left, right, made=made).inputs == {"a": "n0", "b": "n1"}
    partly = Names({"a": "n0", "b": "gone"}, {})
    assert paired(left, right, made=partly).inputs == {"a": "n1", "b": "n0"}
    # Equal names are paired first.
    right = ends(named("a", "n1"), named("y"))
    assert paired(left, right, made=Names({"a": "n1", "b": "n1"}, {})).inputs == {"a": "a", "b": "n1"}


def test_the_user_comes_before_names() -> None:
    left, right = ends(named("a", "b"), named("y", "z")), ends(named("a", "b"), named("y", "z"))
    found = paired(left, right, {"a": "b", "y": "z"})
    assert (found.inputs, found.outputs) == ({"a": "b", "b": "a"}, {"y": "z", "z": "y"})
    # Pairs that the user named are not repeated in the notes.
    assert not any("'a' is paired with" in n or "'y' is paired with" in n for n in found.notes)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"c": "a"}, "--map names 'c', which one does not have"),
        ({"a": "c"}, "--map names 'c', which two does not have"),
        ({"a": "b", "b": "b"}, "--map gives one input of two to two of one"),
        ({"y": "z", "z": "z"}, "--map gives one output of two to two of one"),
    ],
)
def test_what_the_user_says_has_to_be_there_once(given: dict[str, str], reason: str) -> None:
    made = [ends(named("a", "b"), named("y", "z")) for _ in range(2)]
    with pytest.raises(UsageError) as caught:
        paired(*made, given)
    both = "a: float32[n,4], b: float32[n,4] → y: float32[n,4], z: float32[n,4]"
    assert caught.value.message == f"{reason}; one: {both}; two: {both}"
    assert "--map left=right" in str(caught.value.hint)


def test_contracts_in_errors_show_what_is_not_known() -> None:
    left = ends([("a", None, None), ("b", F, [None, 3])], [])
    with pytest.raises(UsageError, match=r"one: a: \S*\[…\], b: float32\[\?,3\] → nothing; two: nothing → nothing"):
        paired(left, ends([], []))


def test_inputs_have_to_be_as_many() -> None:
    one, two = ends(named("a"), named("y")), ends(named("a", "b"), named("y"))
    for pair in ((one, two), (two, one)):
        with pytest.raises(UsageError, match="the inputs cannot be paired"):
            paired(*pair)


def test_outputs_that_only_one_side_has() -> None:
    one, two = ends(named("a"), named("y")), ends(named("a"), named("p", "y", "q"))
    assert paired(one, two).notes == ["not compared, of two only: p, q"]
    with pytest.raises(UsageError, match="the outputs cannot be paired"):
        paired(two, one)
    found = paired(two, one, {"p": "", "q": ""})
    assert (found.outputs, found.kept, found.notes) == ({"y": "y"}, [1], ["not compared, of one only: p, q"])


def test_dtypes_and_shapes_pair_where_they_leave_no_choice() -> None:
    left = ends([("a", F, ["n", 3]), ("b", I64, ["n"])], [("y", F, ["n", 3]), ("z", F, ["n", 5])])
    inputs: list[End] = [("p", I64, ["n"]), ("q", F, ["n", 3])]
    found = paired(left, ends(inputs, [("r", F, [None, 5]), ("s", F, ["n", 3])]))
    assert (found.inputs, found.outputs) == ({"a": "q", "b": "p"}, {"y": "s", "z": "r"})
    assert found.notes[0].startswith("inputs paired by dtype and shape, because the names differ: a = q, b = p ")
    assert found.notes[1].startswith("outputs paired by dtype and shape, because the names differ: y = s, z = r ")
    # Outputs of unknown rank may match either.
    with pytest.raises(UsageError, match="the outputs cannot be paired without doubt") as caught:
        paired(left, ends(inputs, [("r", F, [None, 5]), ("s", F, None)]))
    assert "--map" in str(caught.value.hint)


def test_two_of_one_shape_that_both_fit_one_place_are_no_pairs() -> None:
    """Each has one choice, and it is the same one."""
    left = ends(named("a"), [("y", F, ["n", 3]), ("z", F, ["n", 3])])
    right = ends(named("a"), [("r", F, ["n", 5]), ("s", F, ["n", 3])])
    with pytest.raises(UsageError, match="without doubt"):
        paired(left, right)


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        ((F, ["n", 3]), (D, ["m", 3]), True),
        ((F, ["n", 3]), (I64, ["n", 3]), False),
        ((I64, ["n", 3]), (I32, ["n", 3]), True),
        ((I64, ["n", 3]), (ir.DataType.BOOL, ["n", 3]), False),
        ((STRING, ["n"]), (STRING, ["n"]), True),
        ((None, ["n", 3]), (I64, ["n", 3]), True),
        ((F, ["n", 3]), (None, ["n", 3]), True),
        ((F, ["n", 3]), (F, [2, "c"]), True),
        ((F, ["n", 3]), (F, ["n", 3, 1]), False),
        ((F, ["n", 3]), (F, ["n"]), False),
        ((F, None), (F, ["n", 3]), True),
        ((F, ["n", 3]), (F, [None, 3]), True),
        ((F, [2, 3]), (F, [3, 3]), False),
        ((F, [2, 3]), (F, [2, 4]), False),
    ],
)
def test_inputs_of_one_name_have_to_be_the_same_kind_of_thing(ours: Any, theirs: Any, fits: bool) -> None:
    left, right = ends([("a", *ours)], named("y")), ends([("a", *theirs)], named("y"))
    if fits:
        assert paired(left, right).inputs == {"a": "a"}
        return
    with pytest.raises(UsageError, match="input 'a' differs"):
        paired(left, right)
    # It does not pair under another name either.
    with pytest.raises(UsageError, match="the inputs cannot be paired without doubt"):
        paired(left, ends([("b", *theirs)], named("y")))
    # For outputs, the comparison reports it.
    assert paired(ends(named("x"), [("a", *ours)]), ends(named("x"), [("a", *theirs)])).outputs == {"a": "a"}


@pytest.mark.parametrize("what", ["input", "output"])
@pytest.mark.parametrize(
    ("ours", "theirs", "layout"),
    [
        (["n", 3, 8, 9], ["n", 8, 9, 3], "nhwc"),
        (["n", 8, 9, 3], ["n", 3, 8, 9], "nchw"),
        (["n", 3, 8], ["n", 8, 3], "n"),
        ([1, 3, 7, 8, 9], [1, 7, 8, 9, 3], "nhwc"),
        ([2, 8, 9, 3], [2, 3, 8, 9], "nchw"),
    ],
)
def test_another_layout_is_named_with_its_remedy(what: str, ours: Any, theirs: Any, layout: str) -> None:
    sides = [([("v", F, dims)], named("w")) for dims in (ours, theirs)]
    with pytest.raises(UsageError) as caught:
        paired(*(ends(*(side if what == "input" else side[::-1])) for side in sides))
    shown = [f"[{','.join(map(str, dims))}]" for dims in (theirs, ours)]
    assert f"{what} 'v' has another layout in two: {shown[0]}, not {shown[1]}" in caught.value.message
    assert str(caught.value.hint).startswith(f"--layout {layout}")
    assert str(caught.value.hint).endswith("says that two has its inputs and outputs in that layout")


def test_the_layout_that_the_user_names_is_the_one_that_is_compared() -> None:
    left, right = ends([("v", F, ["n", 3, 8, 9])], named("w")), ends([("v", F, ["n", 8, 9, 3])], named("w"))
    assert paired(left, right, layout="nhwc").inputs == {"v": "v"}
    with pytest.raises(UsageError, match="another layout"):
        paired(left, right, layout="nchw")
    renamed = ends([("u", F, ["n", 8, 9, 3])], named("w"))
    assert paired(left, renamed, layout="nhwc").inputs == {"v": "u"}


def test_two_dims_have_no_layout() -> None:
    left, right = ends(named("a"), [("y", F, [8, 3])]), ends(named("a"), [("y", F, [3, 8])])
    assert paired(left, right).outputs == {"y": "y"}


def test_inputs_of_another_dtype_are_given_numbers_that_both_hold() -> None:
    left = ends([("a", D, [2]), ("b", F, [2]), ("c", None, [2])], named("y"))
    right = ends([("a", F, [2]), ("b", None, [2]), ("c", F, [2])], named("y"))
    found = paired(left, right)
    assert found.dtypes == {"a": np.dtype(np.float32)}
    assert found.notes == ["input 'a' is float32 in two: both are given numbers that either holds"]
    third, half = np.array([1 / 3, 2.0]), np.array([0.5, 1.0], np.float32)
    fed = found.feed({"a": third, "b": half})
    assert (fed["a"].dtype, fed["b"].dtype) == (np.float32, np.float32)
    common = found.common_feed({"a": third, "b": half})
    assert common["a"].dtype == np.float64
    np.testing.assert_array_equal(common["a"], third.astype(np.float32).astype(np.float64))


def test_what_the_right_gives_gets_the_names_of_the_left() -> None:
    pairs = Counterparts({"a": "p"}, {"y": "r", "z": "s"}, ["s", "x", "r"], [0, 1])
    assert list(pairs.feed({"a": np.zeros(1)})) == ["p"]
    r, s, x = np.array(1), np.array(2), np.array(3)
    by_name = pairs.name_outputs({"r": r, "s": s, "x": x})
    assert by_name == {"y": r, "z": s}
    # A runtime with other names returns outputs in its own order.
    assert pairs.name_outputs({"o0": s, "o1": x, "o2": r}) == {"y": r, "z": s}
    with pytest.raises(UsageError, match="it has 3 outputs, s, x, r, and gave 2"):
        pairs.name_outputs({"r": r, "s": s})


def narrowed(
    left: Sequence[End], right: Sequence[End], ours: Any = None, theirs: Any = None, layout: str = ""
) -> tuple[list[str], list[list[Any]], dict[str, Any]]:
    """Return notes, the left's dims, and its bounds afterwards."""
    one, two = ends(left, named("y"), ours), ends(right, named("y"), theirs)
    notes = narrow_dims(one, two, paired(one, two, layout=layout), layout, NAMES)
    dims = [[d if isinstance(d, int) else d.value for d in v.shape or ()] for v in one.graph.inputs]
    return notes, dims, json.loads(one.metadata_props[DIMS_KEY])


def test_a_size_that_the_right_fixes_is_the_lefts_wherever_it_has_it() -> None:
    notes, dims, _ = narrowed(
        [("a", F, ["n", "t", 3]), ("b", F, ["t", "m"])], [("a", F, ["k", 7, 3]), ("b", F, [None, "m"])]
    )
    assert dims == [["n", 7, 3], [7, "m"]]
    assert notes == ["compared at t = 7 only, which two is fixed to"]


def test_a_size_without_a_name_is_fixed_without_a_note() -> None:
    notes, dims, _ = narrowed([("a", F, [None, None])], [("a", F, ["n", 7])])
    assert (notes, dims) == ([], [[None, 7]])


def test_one_size_cannot_be_two() -> None:
    left, right = [("a", F, ["n", 3]), ("b", F, ["n"])], [("a", F, [2, 3]), ("b", F, [5])]
    with pytest.raises(UsageError, match="two takes n = 2 and 5, which is one size in one"):
        narrowed(left, right)
    assert narrowed(left, [("a", F, [2, 3]), ("b", F, [2])])[1] == [[2, 3], [2]]


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ([2, 8], [3, 9], [3, 8]),
        ([2, None], [None, 9], [2, 9]),
        ([None, 5], [4, None], [4, 5]),
        (None, [3, 9], [3, 9]),
        ([None, None], [None, None], [None, None]),
        ([0, 0], [None, 4], [0, 0]),
    ],
)
def test_bounds_of_both_hold(ours: Any, theirs: Any, both: Any) -> None:
    bounds = {"n": ours} if ours else {}
    left, right = [("a", F, ["n", 4])], [("a", F, ["k", 4])]
    assert narrowed(left, right, bounds, {"k": theirs})[2]["n"] == both
    assert narrowed(left, right, {"n": [1, 6], "z": [1, 2]}, {"n": theirs})[2] == {"n": [1, 6], "z": [1, 2]}


def test_dims_are_matched_where_the_layout_puts_them() -> None:
    _, dims, _ = narrowed([("v", F, ["n", 3, "h", "w"])], [("v", F, ["n", 8, 9, 3])], layout="nhwc")
    assert dims == [["n", 3, 8, 9]]


def test_inputs_of_unknown_rank_stay_as_they_are() -> None:
    left, right = [("a", F, None), ("b", F, ["n"])], [("a", F, [2]), ("b", F, None)]
    notes, dims, bounds = narrowed(left, right)
    assert (notes, dims, bounds) == ([], [[], ["n"]], {})


@pytest.mark.slow
@pytest.mark.parametrize("names", ["same", "other", "odd"])
def test_many_outputs_are_not_compared_each_with_all(names: str) -> None:
    """Each was searched among all others: 20,000 took half a minute."""
    count = 20_000
    left = ends(named("x"), named(*(f"o{i}" for i in range(count))))
    right = ends(named("x"), named(*(f"{'o' if names == 'same' else 'p'}{i}" for i in range(count))))
    if names == "odd":
        right.graph.outputs[0].shape = ir.Shape([1, 2, 3])
    with at_most_calls(20_000_000):
        if names == "odd":
            with pytest.raises(UsageError, match="s cannot be paired without doubt"):
                paired(left, right)
        else:
            assert len(paired(left, right).outputs) == count


def noted(ranges: Mapping[str, str], guards: Sequence[str], dims: Sequence[str]) -> ir.Model:
    """Return a model of a mask and positions whose operators take certain integers and sizes only."""
    model = ends(named("mask", "places", dims=dims, dtype=I64), named("y"))
    for input in model.graph.inputs:
        if input.name in ranges:
            input.metadata_props[RANGE_KEY] = ranges[str(input.name)]
    model.metadata_props[GUARDS_KEY] = json.dumps(guards)
    return model


def test_what_operators_of_the_right_take_limits_the_left() -> None:
    left = noted({"mask": "[0, 1]"}, ["rows < 9"], ("rows", "words"))
    right = noted({"mask": "[1, 1]", "places": '[0, "n+1"]'}, ["batch == 1 or n == 1"], ("batch", "n"))
    notes = narrow_calls(left, right, paired(left, right), NAMES)
    found = {str(v.name): v.metadata_props[RANGE_KEY] for v in left.graph.inputs}
    assert found == {"mask": "[1, 1]", "places": '[0, "words+1"]'}
    assert json.loads(left.metadata_props[GUARDS_KEY]) == ["rows < 9", "rows == 1 or words == 1"]
    assert [note.code for note in notes] == ["limited-inputs"]
    assert "mask = 1, places in [0, 'words+1'], rows == 1 or words == 1 only" in notes[0]


def test_what_a_file_of_the_right_claims_limits_nothing() -> None:
    left = noted({"mask": "[0, 1]"}, [], ("rows", "words"))
    right = noted({"mask": "[1, 1]"}, ["n == 1"], ("batch", "n"))
    right.meta[CLAIMS_KEY] = [Claims("the target", guards=["n == 1"], ranges={"mask": "[1, 1]"})]
    assert narrow_calls(left, right, paired(left, right), NAMES) == []
    assert left.graph.inputs[0].metadata_props[RANGE_KEY] == "[0, 1]"
