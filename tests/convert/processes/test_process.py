"""Child processes return arrays unchanged; a crash, a hang and a refusal each have their own error."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import convert
from convert import limits
from convert.errors import BadInput, ConvertError, NotLoaded, ResourceLimit
from convert.plugin import Runner
from convert.processes import run_here
from convert.processes.arrays import load_arrays, save_arrays
from convert.processes.child import _limit_error
from convert.processes.fork_client import ADDRESS
from convert.processes.process import execute
from convert.processes.run_here import PROBE, PROBE_FIRST, Limits, failed_run
from convert.request.given_arrays import load_inputs
from convert.request.options import Options
from convert.request.source import Source
from tests.support.marks import slow

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"


def test_arrays_of_every_dtype_and_name_travel(tmp_path: Path) -> None:
    arrays = {
        "a/b:0": np.arange(6, dtype=np.float32).reshape(2, 3),
        "": np.array(3, np.int64),
        "bool": np.array([True]),
        "half": np.array([1.5, np.nan], ml_dtypes.bfloat16),
        "text": np.array([["ä", ""]], dtype=object),
        "complex": np.array([1 + 2j]),
        "empty": np.zeros((0, 4), np.float16),
    }
    save_arrays(tmp_path / "x", arrays)
    back = load_arrays(tmp_path / "x")
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes() if array.dtype.kind != "O" else (back[name] == array).all()


@pytest.mark.not_core
def test_runs_in_another_process() -> None:
    feed = {"image": np.zeros((1, 1, 28, 28), np.float32)}
    found = execute(Source("onnx", FIXTURES / "mnist_cnn.onnx"), [feed, feed], ("float32", "float64")).results()
    assert found["float32"][0]["log_probs"].dtype == np.float32
    assert found["float64"][1]["log_probs"].dtype == np.float64


@pytest.mark.not_core
def test_feeds_are_tried_until_one_runs() -> None:
    feeds = [{"image": np.zeros((1, 1, size, size), np.float32)} for size in (3, 28, 28)]
    found = execute(Source("onnx", FIXTURES / "mnist_cnn.onnx"), feeds, (PROBE_FIRST, PROBE)).results()
    assert [bool(row["runs"]) for row in found[PROBE_FIRST]] == [False, True]
    assert [bool(row["runs"]) for row in found[PROBE]] == [False, True, True]


def test_no_more_feeds_are_tried_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of gigabytes was loaded for each of sixty sizes, and took minutes before it was refused."""
    seconds = iter([0.0, 5.0, 19.0, 21.0])  # at the start, and before each feed except the first
    monkeypatch.setattr(run_here.time, "monotonic", lambda: next(seconds))
    tried: list[int] = []

    class Failing:
        def run(self, source: Source, feeds: Sequence[Mapping[str, np.ndarray]], **_: object) -> None:
            tried.append(int(feeds[0]["x"]))
            raise ValueError("no")

    feeds = [{"x": np.array(i)} for i in range(9)]
    found = run_here._probe(cast(Runner, Failing()), Source("onnx"), feeds, Options(), once=True)
    assert tried == [0, 1, 2]
    assert [bool(row["runs"]) for row in found] == [False] * 3


@pytest.mark.not_core
def test_one_set_of_inputs_may_be_run_in_float32_alone() -> None:
    feeds = [{"image": np.full((1, 1, 28, 28), size, np.float32)} for size in (0, 1, 2)]
    asked = execute(
        Source("onnx", FIXTURES / "mnist_cnn.onnx"), feeds, ("float32", "float64"), optional=2, deployed=[1]
    )
    single, double = ([o["log_probs"] for o in outputs] for outputs in map(asked.results().get, ("float32", "float64")))
    assert [o.dtype.itemsize for o in double] == [8, 4, 8]
    np.testing.assert_array_equal(double[1], single[1])
    np.testing.assert_allclose(np.exp(double[2]), np.exp(single[2]), rtol=1e-4, atol=1e-6)  # probabilities


@pytest.mark.slow
@pytest.mark.not_core
def test_modules_in_the_folder_that_the_user_is_in_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("convert", "json", "numpy", "onnx", "onnxruntime", "socket"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ADDRESS, raising=False)
    feed = {"image": np.zeros((1, 1, 28, 28), np.float32)}
    execute(Source("onnx", FIXTURES / "mnist_cnn.onnx"), [feed]).results()
    assert not (tmp_path / "ran").exists()


@pytest.mark.not_core
def test_a_refusal_of_the_runtime_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not onnx at all")
    with pytest.raises(ConvertError, match=r"bad\.onnx"):
        execute(Source("onnx", tmp_path / "bad.onnx"), [{}]).results()


def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """Replace the interpreter of children by a script that imitates a native crash or hang of a runtime."""
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


@pytest.mark.not_core
def test_a_crash_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, "echo last words >&2; kill -SEGV $$")
    with pytest.raises(ConvertError, match=r"died with signal SIGSEGV: last words"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}]).results()


@pytest.mark.not_core
def test_a_file_that_became_shorter_is_bad_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, "kill -BUS $$")
    with pytest.raises(BadInput, match="ended with signal SIGBUS: a file that it reads became shorter"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}]).results()


@pytest.mark.parametrize("said", ["pthread_create failed, error code: 11", "can't start new thread"])
def test_a_runtime_without_threads_is_a_limit_and_no_refusal(said: str) -> None:
    found = _limit_error(Limits(), "m.onnx", NotLoaded(f"onnxruntime does not load m.onnx: {said}"))
    assert type(found) is ResourceLimit
    assert "starts no more processes or threads" in found.message


ODD_ANSWERS = {
    "a link": "ln -s /etc/passwd $F/status.json",
    "a link to itself": "ln -s status.json $F/status.json",
    "a folder": "mkdir $F/status.json",
    "a pipe": "mkfifo $F/status.json",
    "a device": "ln -s /dev/zero $F/status.json",
    "no JSON": "echo { > $F/status.json",
    "another JSON": "echo [1] > $F/status.json",
    "deep JSON": "printf %0100000d 0 | tr 0 [ > $F/status.json",
    "no end": "truncate -s 2T $F/status.json",
    "an error that is none": 'echo \'{"error": "annotations", "message": "x", "hint": ""}\' > $F/status.json',
    "arrays that are none": 'echo \'{"unsupported": {}, "outputs": [["float32", 3]]}\' > $F/status.json',
    "a file of others": (
        "mkdir $F/0.0; ln -s $F/feed0/0.npy $F/0.0/0.npy;"
        'echo \'[{"name": "x", "dtype": "float32"}]\' > $F/0.0/index.json;'
        'echo \'{"unsupported": {}, "outputs": [["float32", 1]]}\' > $F/status.json'
    ),
}
"""Shell commands that replace a child's answer, as an attacker who controls the child could."""


@pytest.mark.not_core
@pytest.mark.parametrize("odd", slow(ODD_ANSWERS, "no end"))
def test_an_answer_that_is_none_is_an_error(odd: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, f"F=$4; {ODD_ANSWERS[odd]}")
    running = execute(Source("onnx", tmp_path / "m.onnx"), [{"x": np.ones(2, np.float32)}])
    with pytest.raises(ConvertError, match="left an answer that is none"):
        running.results()


@pytest.mark.not_core
def test_messages_without_an_end_are_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, "F=$4; truncate -s 2T $F/stderr; exit 3")
    with pytest.raises(ConvertError, match="died with exit code 3"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}]).results()


@pytest.mark.not_core
def test_a_hang_ends_with_a_resource_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, "sleep 60")
    with pytest.raises(ResourceLimit, match=r"longer than 0\.3 s"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}], limits=Limits(seconds=0.3)).results()


@pytest.mark.not_core
def test_a_disk_that_fills_up_ends_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reserve is all of the free space, so the first kilobyte is too much."""
    monkeypatch.setattr(limits, "CHILD_DISK_PERCENT", 0)
    child(monkeypatch, tmp_path, "while :; do head -c 100000 /dev/zero >> $4/more; sleep 0.1; done")
    began = time.monotonic()
    with pytest.raises(ResourceLimit, match="nearly full"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}], limits=Limits(seconds=60)).results()
    assert time.monotonic() - began < 30


@pytest.mark.not_core
def test_a_full_disk_is_no_failure_of_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child(monkeypatch, tmp_path, "LC_ALL=C head -c 9 /dev/zero > /dev/full")
    with pytest.raises(ResourceLimit, match="No space left"):
        execute(Source("onnx", tmp_path / "m.onnx"), [{}]).results()
    error = failed_run(Source("onnx", tmp_path / "m.onnx"), OSError(errno.EFBIG, os.strerror(errno.EFBIG)))
    assert isinstance(error, ResourceLimit)


def filling(path: Path, rows: int) -> Path:
    """Return the sum of `rows` million copies of a number, which needs 4 MB for each million while it runs."""
    graph = helper.make_graph(
        [helper.make_node("Expand", ["x", "sizes"], ["many"]), helper.make_node("ReduceSum", ["many"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor("sizes", TensorProto.INT64, [2], [rows, 1_000_000])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.not_core
def test_a_run_that_needs_more_than_its_memory_says_so(tmp_path: Path) -> None:
    source = Source("onnx", filling(tmp_path / "many.onnx", 2_000))
    with pytest.raises(ResourceLimit, match=r"did not fit into 2\.00 GB of memory") as caught:
        execute(source, [{"x": np.ones((1, 1), np.float32)}], limits=Limits(memory=2_000_000_000)).results()
    assert "--memory" in caught.value.hint


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("at_fault", ["right", "wrong"])
def test_a_runner_that_dies_is_a_failure_and_a_source_that_does_an_error(
    at_fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process of one of the two files is killed as by a native crash; the other one runs as usual."""
    right, wrong = filling(tmp_path / "right.onnx", 1), filling(tmp_path / "wrong.onnx", 1)
    dies = f'if grep -q {at_fault}.onnx "$4/job.pickle"; then echo last words >&2; kill -SEGV $$; fi'
    child(monkeypatch, tmp_path, f'{dies}\nexec {sys.executable} "$@"')
    if at_fault == "right":
        with pytest.raises(ConvertError, match=r"right\.onnx died with signal SIGSEGV: last words \(the source"):
            convert.verify(right, wrong)
        return
    verdict = convert.verify(right, wrong).verdict
    assert verdict is not None
    assert (verdict.status, verdict.at_fault) == ("FAIL", "")
    assert "wrong.onnx died with signal SIGSEGV: last words (the target of the comparison)" in verdict.reason


def test_inputs_are_read_without_pickle(tmp_path: Path) -> None:
    np.savez(tmp_path / "ok.npz", x=np.ones(3))
    np.savez(tmp_path / "evil.npz", x=np.array([print], dtype=object))
    assert list(load_inputs(tmp_path / "ok.npz")) == ["x"]
    with pytest.raises(ConvertError, match="no readable inputs"):
        load_inputs(tmp_path / "evil.npz")
