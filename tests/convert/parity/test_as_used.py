"""The target is run as its users run it: what does not load, or is right in one way or setting only, does not pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert import api, plugin
from convert.errors import ConvertError, Unsupported
from convert.naming import Names
from convert.options import Options
from convert.parity.as_used import TargetRuns
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, VerifyMethod, hold_other_uses, judge
from convert.parity.verify import runs_of_every_feed, verify
from convert.report import Report
from convert.source import Source
from convert.verdict import FAIL, PASS, Verdict


def difference(a: str = "a", b: str = "b", size: int = 300) -> onnx.ModelProto:
    """y = a - 2b."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n in (a, b, "y")]
    nodes = [helper.make_node("Mul", [b, "two"], ["b2"]), helper.make_node("Sub", [a, "b2"], ["y"])]
    two = numpy_helper.from_array(np.float32(2), "two")
    graph = helper.make_graph(nodes, "g", ends[:2], ends[2:], [two])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def read(proto: onnx.ModelProto) -> ir.Model:
    return plugin.frontends()["onnx"].read(Source("onnx-object", model=proto), Options(), Report("read"))


# -- the judge ------------------------------------------------------------------------------------------------------


def verdict_of(
    first: float, others: dict[str, tuple[float, int]], size: int = 300, *, only_on: str = "", again: bool = True
) -> Verdict:
    """On two feeds; the numbers are how far each way is off, and on how many feeds it is run.

    only_on: the label of the feed that the others are off on, draws of it not included, else they are everywhere.
    again: whether everything can be run once more.
    """
    graph = read(difference(size=size))
    generator = np.random.default_rng(0)
    feeds = [
        Feed(f"set {n}", {name: generator.standard_normal((3, size)).astype(np.float32) for name in "ab"}, edge=n == 1)
        for n in range(2)
    ]

    def run(feeds: Sequence[Feed]) -> RunOutputs:
        assert len(feeds) == 2 or not any(f.edge for f in feeds), "none may be left out now"
        if len(feeds) > 2 and not again:
            raise ConvertError("no time is left")
        exact = [{"y": f.arrays["a"].astype(np.float64) - 2 * f.arrays["b"].astype(np.float64)} for f in feeds]

        def off(share: float, count: int, only_on: str = "") -> list[dict[str, np.ndarray]]:
            shares = [share if not only_on or (f.label, f.draw_of) == (only_on, "") else 0.0 for f in feeds]
            found = [{"y": (o["y"] * (1 + s)).astype(np.float32)} for s, o in zip(shares, exact, strict=True)]
            return found if count > 1 else found[:1]

        ways = {way: off(*numbers, only_on) for way, numbers in others.items()}
        rounded = [{"y": o["y"].astype(np.float32)} for o in exact]
        return RunOutputs({"float32": rounded, "float64": exact}, off(first, 2), exact, None, "one", ways)

    runs, method = run(feeds), VerifyMethod()
    return hold_other_uses(judge(graph, feeds, runs, method), graph, feeds, runs, run, method)


def test_another_way_that_is_wrong_fails_by_its_name() -> None:
    assert verdict_of(0, {"two": (0, 2), "three": (0, 1)}).status == PASS
    for count in (1, 2):
        found = verdict_of(0, {"two": (0, 2), "three": (1e-4, count)})
        assert (found.status, found.guilty) == (FAIL, "backend")
        assert found.reason.startswith("three: y: error")


def test_a_way_may_be_as_far_off_again_as_the_first_that_passes() -> None:
    """Eigen's convolutions round otherwise than oneDNN's: the source's floor of 2.4e-7 allows 9.5e-7."""
    assert verdict_of(8e-7, {"two": (2e-6, 2)}).status == PASS
    assert verdict_of(0, {"two": (2e-6, 2)}).status == FAIL
    assert verdict_of(8e-7, {"two": (1e-5, 2)}).status == FAIL


def test_a_failure_in_one_way_only_says_which() -> None:
    assert verdict_of(1e-4, {"two": (0, 2)}).reason.startswith("one: y: error")
    assert verdict_of(1e-4, {"two": (1e-4, 2)}).reason.startswith("y: error")


def test_chance_is_not_held_against_a_way() -> None:
    """Of one number the ratio of two roundings says nothing; of an error far beyond it, something."""
    assert verdict_of(0, {"two": (2e-6, 1)}, size=1).status == PASS
    assert verdict_of(0, {"two": (1e-2, 1)}, size=1).status == FAIL


@pytest.mark.parametrize(
    ("off", "size", "count", "only_on", "again", "status"),
    [
        # 900 numbers that are off by twice the bound may share an error: on more draws of the same inputs they tell.
        (1.5e-6, 300, 2, "set 0", True, PASS),
        (1.5e-6, 300, 2, "", True, FAIL),
        (1.5e-6, 300, 2, "set 0", False, FAIL),
        (2.5e-6, 300, 2, "set 0", True, FAIL),
        # What is run on the first inputs alone cannot be drawn again.
        (1.5e-6, 300, 1, "set 0", True, FAIL),
        # Few numbers, much further off.
        (2e-6, 1, 2, "set 0", True, PASS),
        (2e-6, 1, 2, "", True, FAIL),
        (2e-6, 1, 2, "set 0", False, FAIL),
    ],
)
def test_a_way_that_may_fail_by_chance_is_drawn_again(
    off: float, size: int, count: int, only_on: str, again: bool, status: str
) -> None:
    found = verdict_of(0, {"two": (off, count)}, size, only_on=only_on, again=again)
    assert found.status == status
    assert status == PASS or found.reason.startswith("two: y: error")


def test_a_way_that_is_run_on_one_feed_need_not_take_the_others() -> None:
    """Whatever it is called: the first way is run on all, and its outputs are missing where it does not take them."""
    one, two = [{"y": np.zeros(1)}], [{"y": np.zeros(1)}, {"y": np.ones(1)}]
    assert runs_of_every_feed({"m": one, "a": one, "z": two, "n": one}) == [one, two]


class Child:
    """What a child process has to tell."""

    def __init__(self, told: Any) -> None:
        self.told = told

    def results(self) -> Any:
        if isinstance(self.told, ConvertError):
            raise self.told
        return self.told

    def stop(self) -> None: ...


def test_a_setting_that_does_not_run_is_named() -> None:
    runs = TargetRuns([("with A=1", Child({"x": [], "z": []})), ("with A=0", Child({"x": []}))])  # type: ignore[list-item]
    found = runs.results()
    assert isinstance(found, dict)
    assert list(found) == ["x, with A=1", "z, with A=1", "x, with A=0"]
    runs.children[1] = ("with A=0", Child(ConvertError("it died")))  # type: ignore[assignment]
    found = runs.results()
    assert isinstance(found, ConvertError)
    assert found.message == "with A=0: it died (the target of the comparison)"
    both = [(name, Child(Unsupported("no kernel"))) for name in ("with A=1", "with A=0")]
    found = TargetRuns(both).results()  # type: ignore[arg-type]
    assert isinstance(found, Unsupported)
    assert found.message == "no kernel (the target of the comparison)"


@pytest.mark.parametrize(
    ("children", "told"),
    [
        ([("", {"x": Unsupported("no kernel")})], "no kernel"),
        ([("", {"x": [], "z": Unsupported("no kernel")})], "no kernel"),
        ([("with A=1", {"x": [], "z": Unsupported("no z")}), ("with A=0", {"x": []})], "with A=1: no z"),
        ([("with A=1", {"x": []}), ("with A=0", {"x": Unsupported("no x"), "z": []})], "with A=0: no x"),
        # Two ways of one setting are one setting that fails; where each has one, none is to be named.
        ([("with A=1", {"x": Unsupported("one"), "z": Unsupported("two")}), ("with A=0", {})], "with A=1: one"),
        ([("with A=1", {"x": Unsupported("one")}), ("with A=0", {"z": Unsupported("two")})], "one"),
        ([("", ConvertError("it died"))], "it died"),
    ],
)
def test_a_way_that_does_not_go_is_told(children: list[tuple[str, Any]], told: str) -> None:
    found = TargetRuns([(setting, Child(what)) for setting, what in children]).results()  # type: ignore[misc]
    assert isinstance(found, ConvertError)
    assert found.message == f"{told} (the target of the comparison)"


# -- artefacts --------------------------------------------------------------------------------------------------------


def renamed(proto: onnx.ModelProto, names: dict[str, str], folder: Path) -> tuple[Source, Source, ir.Model]:
    """A source, and a SavedModel of it whose signature was given other names without a look at what they do."""
    from convert.backends.tensorflow.writer.signature import rename_signature

    onnx.save(proto, folder / "m.onnx")
    convert.convert(folder / "m.onnx", "tf", folder / "m.savedmodel", verify=False)
    rename_signature(folder / "m.savedmodel", list(names.items()), [])
    source = api.open_source(folder / "m.onnx")
    return source, api.open_source(folder / "m.savedmodel"), read(proto)


@pytest.mark.slow
@pytest.mark.not_core
def test_a_saved_model_that_does_not_load_fails(tmp_path: Path) -> None:
    """A session runs it all the same."""
    source, target, graph = renamed(difference(), {"a": "a b", "b": "a-b"}, tmp_path)
    names = Names({"a": "a b", "b": "a-b"}, {})
    verdict = verify(source, target, graph, Options(), VerifyMethod(names=names))
    assert (verdict.status, verdict.guilty) == (FAIL, "backend")
    assert "the target does not run: loaded by tf.saved_model.load: ValueError: duplicate parameter" in verdict.reason


@pytest.mark.slow
@pytest.mark.not_core
def test_inputs_that_are_swapped_when_they_are_called_by_name_fail(tmp_path: Path) -> None:
    """TensorFlow sorts `x.1` before `x_0`, and `x_1` after it."""
    source, target, graph = renamed(difference(), {"a": "x.1", "b": "x_0"}, tmp_path)
    verdict = verify(source, target, graph, Options(), VerifyMethod(names=Names({"a": "x.1", "b": "x_0"}, {})))
    assert (verdict.status, verdict.guilty) == (FAIL, "backend")


@pytest.mark.slow
@pytest.mark.not_core
def test_what_is_called_otherwise_is_found_again(tmp_path: Path) -> None:
    """By the same rule, and not by place: here both orders would do."""
    onnx.save(difference("x.1", "x_0"), tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "tf", tmp_path / "m.savedmodel", verify=False)
    assert report.renamed["inputs"] == {"x.1": "x_1"}
    again = convert.verify(tmp_path / "m.onnx", tmp_path / "m.savedmodel")
    assert again.verdict is not None
    assert again.verdict.status == PASS


@pytest.mark.slow
@pytest.mark.not_core
def test_wrong_numbers_under_one_setting_fail_and_name_it(tmp_path: Path) -> None:
    """oneDNN fuses a Pad, a Conv3D without bias and a LeakyRelu, and takes the slope for 1, on every processor."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    weight = generator.standard_normal((3, 3, 3, 2, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1] * 6, kernel_shape=[3] * 3),
        helper.make_node("LeakyRelu", ["h"], ["y"], alpha=0.2),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 6, 6, 6]) for n, c in (("x", 2), ("y", 4))]
    turned = numpy_helper.from_array(np.ascontiguousarray(weight.transpose(4, 3, 0, 1, 2)), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [turned])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")

    @tf.function(input_signature=[tf.TensorSpec([1, 6, 6, 6, 2], tf.float32, name="x")])
    def layers(x: Any) -> dict[str, Any]:
        h = tf.nn.conv3d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [1, 1], [0, 0]]), weight, [1] * 5, "VALID")
        return {"y": tf.nn.leaky_relu(h, 0.2)}

    tf.saved_model.save(tf.Module(), str(tmp_path / "m.savedmodel"), signatures=layers)
    source, target = (api.open_source(tmp_path / name) for name in ("m.onnx", "m.savedmodel"))
    graph_read = read(onnx.load(tmp_path / "m.onnx"))
    verdict = verify(source, target, graph_read, replace(Options(), layout="nhwc"), VerifyMethod(seeds=1))
    assert verdict.status == FAIL
    assert "with TF_ENABLE_ONEDNN_OPTS=1: y: error" in verdict.reason
