"""Test the tables and scripts of `consumers.py`, which need no installation; with `long`, also run the consumers."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.suites.consumer_environments import Environment, Needs, NotToBeHad, environment, interpreter
from tests.suites.consumer_networks import NETWORKS, Network, answers, build, feed
from tests.suites.consumer_rows import CONSUMERS, Consumer
from tests.suites.consumers import (
    REFUSED,
    RIGHT,
    SCRIPTS,
    UNWRITTEN,
    WRONG,
    Cell,
    decoded,
    encoded,
    faults,
    measure,
    measure_all,
    reason,
    row,
)

HERE = Consumer("onnxruntime of these tests", Needs(pip=("onnxruntime",)), "run_onnxruntime.py")


class Determinants(torch.nn.Module):
    """A network of determinants, for which TensorFlow Lite has no operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.det(x)


class ThisPython(Environment):
    """The environment that runs the tests."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_the_same_each_time_and_feel_their_input(name: str) -> None:
    (x,) = feed(name).values()
    single, double = answers(name, x)
    assert (single == answers(name, x)[0]).all()
    assert single.dtype == np.float32
    assert not build(name).training
    error = np.abs(single - double).max()
    elsewhere = answers(name, np.flip(x, 1).copy() if x.dtype.kind == "i" else -x)[0]
    assert np.abs(elsewhere - single).max() > 100 * error


def test_rows_name_networks_and_scripts() -> None:
    assert len(NETWORKS) == 20
    assert len({c.name for c in CONSUMERS}) == len(CONSUMERS)
    for consumer in CONSUMERS:
        assert (SCRIPTS / consumer.script).is_file()
        assert {*consumer.refuses, *consumer.unwritten} <= set(NETWORKS)
        assert not {*consumer.refuses} & {*consumer.unwritten}
        assert all(consumer.refuses.values())
        assert consumer.needs.pip or consumer.needs.npm


def test_scripts_are_of_the_oldest_python() -> None:
    oldest = min(tuple(map(int, c.needs.python.split("."))) for c in CONSUMERS)
    for script in SCRIPTS.glob("*.py"):
        ast.parse(script.read_text(), feature_version=oldest)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "words"])
def test_the_way_of_a_network(name: str, tmp_path: Path) -> None:
    """A network is written, run by its script in a process, and judged, using the installed onnxruntime."""
    here = ThisPython(tmp_path, HERE.needs)
    assert measure(HERE, here, name, tmp_path) == Cell(HERE.name, name, RIGHT)


@pytest.mark.slow
def test_what_goes_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors are other numbers, another shape, an error of the consumer, and an error of ours."""
    here = ThisPython(tmp_path, HERE.needs)
    single = answers("mlp", *feed("mlp").values())[0]
    for given in (single * (1 + 1e-4), single[:1]):
        monkeypatch.setattr("tests.suites.consumers.run", lambda *_, given=given: {"0": given})
        assert measure(HERE, here, "mlp", tmp_path).outcome == WRONG
    monkeypatch.undo()
    broken = Consumer("broken", HERE.needs, HERE.script, options={"opset": 20})
    (tmp_path / "onnx-opset20-batch").mkdir()
    (tmp_path / "onnx-opset20-batch" / "cnn.onnx").write_bytes(b"no model")
    assert measure(broken, here, "cnn", tmp_path).outcome == REFUSED
    lite = Consumer("lite", HERE.needs, "run_litert.py", "tflite")
    monkeypatch.setitem(NETWORKS, "determinants", Network(Determinants, (3, 3)))
    cell = measure(lite, here, "determinants", tmp_path)
    assert (cell.outcome, "Det" in cell.text) == (UNWRITTEN, True)


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        (Cell("c", "cnn", RIGHT), False),
        (Cell("c", "lstm", REFUSED, "no LSTM here"), False),
        (Cell("c", "lstm", REFUSED, "out of memory"), True),
        (Cell("c", "lstm", RIGHT), True),
        (Cell("c", "lstm", WRONG, "LSTM"), True),
        (Cell("c", "cnn", REFUSED, "no Conv"), True),
        (Cell("c", "gru", UNWRITTEN, "no GRU in it"), False),
        (Cell("c", "gru", REFUSED, "no GRU in it"), True),
    ],
)
def test_faults(cell: Cell, fault: bool) -> None:
    consumer = Consumer("c", HERE.needs, HERE.script, refuses={"lstm": "LSTM"}, unwritten={"gru": "GRU"})
    assert bool(faults(consumer, [cell])) == fault


def test_the_row_names_all_that_is_not_right() -> None:
    cells = [Cell("c", "cnn", RIGHT), Cell("c", "lstm", REFUSED, "no"), Cell("c", "gru", REFUSED, "no")]
    told = row(Consumer("c", HERE.needs, "s", options={"opset": 8}, batch="2"), {"python": "3.8", "c": "1"}, cells)
    assert told == "| c | python 3.8, c 1 | onnx opset 8 batch 2 | 1 of 3 | lstm, gru refused: no |"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Traceback\n  File x\nNotImplementedError: no LSTM\n", "NotImplementedError: no LSTM"),
        ("About to throw\nRuntimeError: bad axis\n[CALL STACK]\n  main + 0x2\n", "RuntimeError: bad axis"),
        ("tvm.error.OpNotImplemented: LSTM\n", "tvm.error.OpNotImplemented: LSTM"),
        ("cannot read /some/where/model.onnx\n", "cannot read model.onnx"),
        ("", ""),
    ],
)
def test_reasons(output: str, line: str) -> None:
    assert reason(output) == line


def test_arrays_go_through_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import arrays

    for array in (np.float32([[1, np.nan]]), np.arange(6).reshape(2, 3), np.float32(3), np.zeros((0, 2), np.float32)):
        np.testing.assert_array_equal(decoded(arrays.entry(array)), array, strict=True)
        assert arrays.entry(array) == encoded(array)


@pytest.mark.slow
def test_what_is_not_to_be_had_says_why(tmp_path: Path) -> None:
    with pytest.raises(NotToBeHad, match=r"there is no Python 3\.0"):
        interpreter("3.0")
    with pytest.raises(NotToBeHad, match="ERROR: Invalid requirement"):
        environment(Needs(f"3.{sys.version_info[1]}", ("./no such folder",)), tmp_path / "e")
    assert not (tmp_path / "e" / "installed.json").exists()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return tmp_path_factory.mktemp("models")


@pytest.mark.long
@pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda c: c.name)
def test_consumer(consumer: Consumer, models: Path, tmp_path: Path) -> None:
    """Consumers are installed from the registries; CONVERT_CONSUMERS names a folder that keeps the environments."""
    folder = Path(os.environ.get("CONVERT_CONSUMERS", tmp_path))
    try:
        _, cells = measure_all(consumer, list(NETWORKS), folder, models, print)
    except NotToBeHad as why:
        pytest.skip(f"not to be had: {why}")
    assert faults(consumer, cells) == []
