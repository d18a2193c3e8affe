"""The inputs, sizes and names that are chosen, at their bounds, with the runs and input sets that belong to them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import ConvertError, Unsupported, UsageError
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.outcome.verdict import FAIL, PASS, Element, OutputVerdict, Verdict
from convert.parity.compare.special_verdict import operators_behind
from convert.parity.evidence import RunOutputs, runs_on
from convert.parity.inputs import size_guards, size_search
from convert.parity.inputs.feeds import (
    GIVEN,
    Feed,
    _implied_bound,
    closer_spans,
    fed_shape,
    inputs_from_samples,
    possible_sizes,
    sized_feed,
    special_feed,
)
from convert.parity.inputs.saved import input_sets
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts, _both, _by_place, _plain_name, narrow_dims
from convert.parity.runs import source_runs
from convert.parity.verify import _completed, _in_dtypes_of, _worst_feed, runs_of_every_feed
from convert.request.options import Options
from convert.request.source import Source
from tests.convert.parity.input_models import identities as model

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
SOURCE = Source("onnx-object", model="source")
NO = Unsupported("no")


# -- inputs, sizes and names ------------------------------------------------------------------------------------------


def test_the_users_inputs_are_taken_where_no_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's inputs are recognized by their label alone, whether it sorts before or after other labels."""
    tried: list[list[str]] = []

    def run(feeds: Any) -> Any:
        tried.append([f.label for f in feeds])
        if tried[-1] != [GIVEN]:
            raise ConvertError("no")
        return "ran"

    def no(*given: Any) -> Any:
        raise ConvertError("none")

    monkeypatch.setattr(source_runs, "search_sizes", no)
    feeds = [Feed("a", {}), Feed(GIVEN, {}), Feed("~", {})]
    found, used, notes = source_runs.run_where_it_runs(run, lambda *a: feeds, feeds, SOURCE, model(2), Options(),
                                                       VerifyMethod())  # fmt: skip
    assert (found, used) == ("ran", [feeds[1]])
    assert notes == ["compared on the example alone: the source runs on no inputs that were drawn (no)"]
    with pytest.raises(ConvertError, match="none"):
        source_runs.run_where_it_runs(run, lambda *a: feeds, [feeds[0], feeds[2]], SOURCE, model(2), Options(),
                                      VerifyMethod())  # fmt: skip


def value(name: str, *dims: int | str, dtype: ir.DataType = F) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(dims))


def test_ends_are_paired_by_place_also_where_one_side_has_more() -> None:
    left = [value("a", 2), value("b", 3)]
    for right in ([value("p", 2), value("q", 3)], [value("p", 2), value("q", 3), value("r", 4)]):
        assert _by_place(left, right, {}) == ({"a": "p", "b": "q"}, "place")
    assert _by_place(left, [value("q", 3), value("p", 2), value("r", 4)], {}) == ({"a": "p", "b": "q"},
                                                                                  "dtype and shape")  # fmt: skip
    assert _by_place([value("a", "n"), value("b", 3)], [value("q", 3), value("p", 2)], {}) == ({}, "")
    assert _by_place([value("a", 2), value("b", 2)], [value("q", 3), value("p", 2)], {}) == ({}, "")


def test_plain_names() -> None:
    names = {"serving_default_X.1:0": "x_1", "a:1": "a_1", "A b:0": "a_b", "x:0:0": "x_0", "b:01": "b_01"}
    assert {n: _plain_name(n) for n in names} == names


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [([1, 5], [2, 9], [2, 5]), ([None, 5], [2, None], [2, 5]), ([None, None], [None, None], [None, None]),
     ([0, 0], [None, 3], [0, 0]), ([3, None], [0, 0], [3, 0])],
)  # fmt: skip
def test_both_bounds_hold(one: list[int | None], other: list[int | None], both: list[int | None]) -> None:
    assert _both(one, other) == _both(other, one) == both


def test_a_size_that_is_fixed_narrows_the_first() -> None:
    left, right = model("n", "m", 3), model(4, "k", 3)
    pairs = Counterparts({"x": "x"}, {"y": "y"}, ["y"], [0])
    assert narrow_dims(left, right, pairs, "", ("one", "two")) == ["compared at n = 4 only, which two is fixed to"]
    assert [str(d) for d in left.graph.inputs[0].shape or ()] == ["4", "m", "3"]
    with pytest.raises(UsageError, match=r"two takes n = 4 and 5, which is one size in one"):
        narrow_dims(model("n", "n"), model(4, 5), pairs, "", ("one", "two"))


def test_first_runs_have_stand_ins_of_their_own() -> None:
    outputs = [{"y": np.full(2, float(i))} for i in range(4)]
    for count, left in ((4, 2), (3, 1), (2, 0), (1, 0)):
        runs = RunOutputs({"float32": outputs, "float64": NO}, outputs, outputs, stand_ins=2)
        found = runs_on(runs, range(count))
        assert (found.stand_ins, len(found.target), len(found.source["float32"])) == (left, count, count)  # type: ignore[arg-type]
        assert found.source["float64"] is NO


def test_ways_of_use_that_run_on_every_feed() -> None:
    one, two = [{"y": np.zeros(1)}], [{"y": np.zeros(1)}] * 2
    assert runs_of_every_feed({"a": one, "b": one}) == [one]
    assert runs_of_every_feed({"a": one, "b": two, "c": one}) == [one, two]


def test_half_precision_is_widened_to_what_the_graph_declares() -> None:
    g = Graph()
    x = g.input("x", F, [2])
    g.output(g.Neg(x), "y")
    g.output(g.Cast(x, to=ir.DataType.FLOAT16), "h")
    given = {"y": np.ones(2, np.float16), "h": np.ones(2, np.float16)}
    (found,) = _in_dtypes_of(g.model(), [given])
    assert {n: a.dtype.name for n, a in found.items()} == {"y": "float32", "h": "float16"}
    (found,) = _in_dtypes_of(g.model(), [{"y": np.ones(2), "h": np.ones(2, np.float32)}])
    assert {n: a.dtype.name for n, a in found.items()} == {"y": "float64", "h": "float32"}


def test_runs_that_ended_early_and_those_that_did_not() -> None:
    outputs = [{"y": np.full(1, float(i))} for i in range(3)]
    assert _completed(outputs, NO, 3) == outputs
    assert _completed(outputs, outputs, 2) == outputs[:2]
    assert isinstance(_completed(outputs[:2], NO, 3), Unsupported)
    assert _completed(outputs[:1], outputs, 3) == outputs


def test_the_worst_of_what_failed_comes_first() -> None:
    feeds = [Feed(n, {"x": np.zeros(size)}) for n, size in (("a", 3), ("b", 2), ("c", 1), ("d", 4))]
    rows = [
        OutputVerdict("y", PASS, elements=[Element((0,), 0.0, 9.0, 9.0, "a")]),
        OutputVerdict("z", FAIL, elements=[Element((0,), 0.0, 1.0, 1.0, "d"), Element((0,), 0.0, 2.0, 2.0, "b")]),
    ]
    assert _worst_feed(Verdict(FAIL, outputs=rows), feeds).label == "b"
    assert _worst_feed(Verdict(PASS, outputs=rows[:1]), feeds).label == "c"


def test_sets_of_inputs_are_named_by_the_last_at() -> None:
    one = np.zeros(1)
    found = input_sets({"a": one, "a@1": one, "b@c": one, "b@c@1": one, "@1": one, 0: one})
    assert [list(f) for f in found] == [["a", "b@c", "@1", 0], ["a", "b@c"]]


@pytest.mark.parametrize(
    ("bounds", "wanted", "size"),
    [(None, 0, 1), ([None, 3], 0, 1), ([0, 3], 0, 0), ([2, None], 0, 2), ([0, 3], 5, 3), ([2, None], 5, 6)],
)
def test_sizes_stay_within_bounds_and_meet_guards(bounds: list[int | None] | None, wanted: int, size: int) -> None:
    sized = model("n", 3)
    sized.metadata_props[DIMS_KEY] = json.dumps({} if bounds is None else {"n": bounds})
    sized.metadata_props[GUARDS_KEY] = json.dumps(["n != 5"])
    assert possible_sizes(sized, {"n": wanted}) == {"n": size}
    sized.metadata_props[GUARDS_KEY] = json.dumps(["n % 2 == 3"])
    assert possible_sizes(sized, {"n": wanted}) is None


def test_inputs_of_unknown_rank_have_the_last_dims() -> None:
    unknown = ir.Value(name="x", type=ir.TensorType(F))
    assert [fed_shape(unknown, {"number of dims": n}) for n in (0, 1, 2, 4)] == [[], [4], [8, 4], [2, 3, 8, 4]]


def test_samples_are_a_batch_where_the_model_takes_one() -> None:
    def taken(dims: tuple[int | str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        return inputs_from_samples(model(*dims), {"x": np.zeros(shape)})["x"].shape

    assert taken(("n", 3), (40, 3)) == (32, 3)
    assert taken(("n", 3), (32, 3)) == (32, 3)
    assert taken((4, 3), (40, 4, 3)) == (4, 3)
    assert taken((40, 3), (40, 3)) == (40, 3)
    assert taken((4, 3), (40, 3)) == (4, 3)
    assert taken((1, 3), (40, 3)) == (1, 3)
    assert taken(("n", 3), (40, 5, 3)) == (5, 3)


@pytest.mark.parametrize(
    ("operator", "index", "attributes", "shapes", "bound"),
    [
        ("Gather", 1, {}, ([5, 7], [2]), 5),
        ("Gather", 1, {"axis": 1}, ([5, 7], [2]), 7),
        ("Gather", 0, {}, ([5, 7], [2]), None),
        ("GatherND", 1, {}, ([5, 7], [2, 1]), 5),
        ("GatherND", 1, {}, ([5, 7], [2, 2]), None),
        ("GatherND", 1, {"batch_dims": 1}, ([5, 7], [5, 1]), None),
        ("ScatterND", 1, {}, ([6, 7], [2, 1], [2, 7]), 6),
        ("TensorScatter", 2, {}, ([2, 9, 4], [2, 1, 4], [2]), 9),
        ("TensorScatter", 2, {"axis": 0}, ([2, 9, 4], [2, 1, 4], [2]), 2),
        ("TensorScatter", 1, {}, ([2, 9, 4], [2, 1, 4], [2]), None),
    ],
)
def test_bounds_that_readers_of_places_imply(
    operator: str, index: int, attributes: dict[str, int], shapes: tuple[list[int], ...], bound: int | None
) -> None:
    values = [value(f"v{i}", *s) for i, s in enumerate(shapes)]
    node = ir.Node("", operator, values, [ir.AttrInt64(n, a) for n, a in attributes.items()])
    assert _implied_bound(node, index) == bound


@pytest.mark.parametrize(
    ("noted", "least", "most", "descending"),
    [("[2, 4]", 2, 4, False), ("[3, 1]", 3, 3, False), ('[1, "n"]', 1, 6, False), ('[0, 9, "descending"]', 0, 9, True)],
)
def test_noted_ranges(noted: str, least: int, most: int, descending: bool) -> None:
    made = model("n", 30, dtype=I64)
    made.graph.inputs[0].metadata_props[RANGE_KEY] = noted
    found = sized_feed(made, 0, {"n": 6}).arrays["x"]
    assert (found.min(), found.max()) == (least, most)
    flat = found[:, 0]
    assert bool((np.diff(flat) <= 0).all()) == (descending or least == most)


def test_integers_near_by_for_inputs_without_a_range() -> None:
    made = model(3, dtype=I64)
    assert closer_spans(made, {}) == [{"x": (1, 9)}, {"x": (1, 1)}]
    assert closer_spans(made, {0: np.array([7, 2])}) == [{"x": (2, 7)}]
    assert closer_spans(made, {"x": np.zeros(0, np.int64)}) == [{"x": (1, 9)}, {"x": (1, 1)}]
    made.graph.inputs[0].metadata_props[RANGE_KEY] = "[0, 1]"
    assert closer_spans(made, {}) == []
    assert closer_spans(model(3), {}) == []


@pytest.mark.parametrize(("most", "rows"), [(None, 4), (9, 4), (3, 3), (1, 1)])
def test_special_values_have_a_row_for_each_kind(most: int | None, rows: int) -> None:
    made = model("n", "m")
    made.metadata_props[DIMS_KEY] = json.dumps({"n": [1, most]})
    found = special_feed(made, 3)
    assert found is not None
    assert (found.arrays["x"].shape, found.edge, found.special) == ((rows, 16), True, True)
    assert found.label == f"special values (NaN, infinities, zeros, denormals, limits of integers), n={rows}, m=16"
    plain = special_feed(made, 3, denormals=False)
    assert plain is not None
    assert "denormals" not in plain.label
    assert len(plain.arrays["x"]) == min(rows, 3)
    assert special_feed(model(3, dtype=ir.DataType.BOOL), 3) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("a + b", 10), ("a - b", 4), ("a * b", 21), ("a // b", 2), ("a % b", 1), ("-a", -7), ("a == b", 0), ("a != b", 1),
     ("a < b", 0), ("a <= 7", 1), ("a > 7", 0), ("a >= 7", 1), ("not a", 0), ("a and 0", 0), ("a or 0", 1),
     ("a ** b", 343), ("Max(a, b)", 7), ("Min(a, b)", 3), ("abs(b - a)", 4), ("a < b or b < a", 1)],
)  # fmt: skip
def test_arithmetic_on_sizes(text: str, number: int) -> None:
    assert size_guards.evaluate(text, {"a": 7, "b": 3}) == number


@pytest.mark.parametrize("text", ["c", "a / b", "1 < a < 9", "f(a)", "max(a, key=b)", "a +", "a // 0", "'a'"])
def test_what_is_no_arithmetic_on_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be evaluated|no arithmetic"):
        size_guards.evaluate(text, {"a": 7, "b": 3})
    assert size_guards.broken_guards([text, "a == 7", "a == 8"], {"a": 7, "b": 3}) == [text, "a == 8"]


def test_sizes_stay_within_their_bounds() -> None:
    assert size_guards.fit_sizes({"a": 4}, ["a % 8 == 0"], {"a": [1, 7]}) == {"a": 4}
    assert size_guards.fit_sizes({"a": 4}, ["a % 8 == 0"], {"a": [1, 8]}) == {"a": 8}
    assert size_guards.fit_sizes({"a": 4}, ["a < 3"], {}) == {"a": 2}
    assert size_guards.fit_sizes({"a": 4}, ["a < 1"], {}) == {"a": 4}
    assert size_guards.fit_sizes({"a": 4, "b": 5}, ["a == b", "a % 3 == 0"], {}) == {"a": 6, "b": 6}
    assert size_guards._nearby_sizes(2, [None, 4], 99) == [1, 2, 3, 4]
    assert size_guards._nearby_sizes(2, [2, 3], 99) == [2, 3]
    assert size_guards._nearby_sizes(9, [None, None], 4) == [8, 9, 10, 11]


def test_the_search_names_what_the_user_may_say() -> None:
    made = model("n", 3, "m")
    assert size_search._remedy(ConvertError("no"), made, ["n"]) == (
        "say the sizes that it takes: --input 'x:float32[SIZE,3,SIZE]', or give inputs with --inputs data.npz"
    )
    assert size_search._size_text({"n": 1, "m": 2}, ["m", "n"]) == "m=2, n=1"
    usual = {"n": 2, "m": 16}
    told = size_search.describe_search(made, [{"n": 3, "m": 4}])
    assert "at the sizes that are usual: compared at n=3, m=4, " in told
    assert "at every size near by: compared at n=2, m=16, " in size_search.describe_search(made, [usual])


def test_which_sizes_a_source_runs_at(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[int] = []
    results: Any = {"probe": [{"runs": np.array(True)}, {"runs": np.array(False)}]}
    child = SimpleNamespace(results=lambda: results, stop=lambda: stopped.append(1))
    monkeypatch.setattr(size_search, "execute", lambda *given: child)

    def probe(sizes: list[dict[str, int]]) -> list[bool]:
        return size_search._probe(SOURCE, model("n"), sizes, Options(), VerifyMethod().limits, "probe", {})

    assert probe([]) == []
    assert (probe([{"n": 1}, {"n": 2}]), stopped) == ([True, False], [1])
    results = {"probe": NO}
    assert probe([{"n": 1}, {"n": 2}]) == [False, False]

    def no() -> Any:
        raise ConvertError("no")

    child.results = no
    assert (probe([{"n": 1}, {"n": 2}]), len(stopped)) == ([False, False], 3)


def test_operators_behind_an_output() -> None:
    g = Graph()
    x = g.input("x", F, [3])
    g.output(g.Add(g.Exp(x), g.Cast(g.Size(g.Log(x)), to=F)), "y")
    made = g.model()
    declared = [
        SimpleNamespace(excuses=excuses, equal=False, of=lambda node, name=name: node.op_type == name)
        for name, excuses in (("Exp", True), ("Log", True), ("Add", False), ("Cast", True))
    ]
    assert operators_behind(made, made.graph.outputs[0], declared) == ["Cast", "Exp"]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["A", "If2", "Z"])
def test_operators_inside_of_a_function_are_behind_its_output(name: str) -> None:
    a = ir.Value(name="a", type=ir.TensorType(F), shape=ir.Shape([3]))
    inner = ir.Node("", "Exp", [a])
    body = ir.Graph([a], inner.outputs, nodes=[inner], opset_imports={"": 23})
    function = ir.Function("local", name, graph=body, attributes=[])
    x = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape([3]))
    call = ir.Node("local", name, [x])
    graph = ir.Graph([x], call.outputs, nodes=[call], opset_imports={"": 23, "local": 1})
    made = ir.Model(graph, ir_version=10, functions=[function])
    declared = [SimpleNamespace(excuses=True, equal=False, of=lambda node: node.op_type == "Exp")]
    assert operators_behind(made, call.outputs[0], declared) == ["Exp"]  # type: ignore[arg-type]


def test_a_picture_of_one_channel_keeps_its_dim(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures are read with Pillow")
    from convert.request.image_inputs import image_batch, parse_preparation

    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3) * 51
    image.fromarray(pixels).save(tmp_path / "p.png")
    for text, shape in (("channels=gray", (1, 1, 2, 3)), ("channels=gray,layout=nhwc", (1, 2, 3, 1)),
                        ("2x3", (1, 3, 2, 3))):  # fmt: skip
        found = image_batch([tmp_path / "p.png"], parse_preparation(text))[0]
        assert found.shape == shape
        np.testing.assert_allclose(found.ravel()[: 3 if "n" in text else 6][0], pixels[0, 0] / 255)
    bytes_of = image_batch([tmp_path / "p.png"], parse_preparation("channels=gray,dtype=uint8,scale=0.1"))[0]
    np.testing.assert_array_equal(bytes_of[0, 0], [[0, 255, 255], [255, 255, 255]])
    shifted = image_batch([tmp_path / "p.png"], parse_preparation("channels=gray,scale=51,mean=1,std=2"))[0]
    np.testing.assert_array_equal(shifted[0, 0], [[-0.5, 0, 0.5], [1, 1.5, 2]])


def test_samples_are_several_sets_if_the_batch_size_is_fixed() -> None:
    samples = np.arange(40.0 * 3).reshape(40, 3)
    found = inputs_from_samples(model(2, 3), {"x": samples})
    assert list(found) == ["x", "x@1", "x@2"]
    assert [[len(part) for part in found.values()], len(input_sets(found))] == [[2, 2, 2], 3]
    assert np.array_equal(np.concatenate(list(found.values())), samples[:6])
