"""A model that does not fit into memory is not verified unless requested; one that fits once runs its sides in turn."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import convert
from convert.parity.runs.memory import bytes_of_run
from convert.processes import machine
from convert.processes.process import RunningChild
from convert.processes.run_here import Limits

MODEL = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.onnx"


@pytest.fixture
def needed() -> int:
    """Return the estimated memory of a run: 4 bytes for each weight, and 8 more."""
    import onnx_ir as ir

    found = bytes_of_run(ir.load(MODEL))
    weights = onnx.load(MODEL).graph.initializer
    floats = sum(len(onnx.numpy_helper.to_array(w).ravel()) for w in weights if w.data_type == onnx.TensorProto.FLOAT)
    others = sum(onnx.numpy_helper.to_array(w).nbytes for w in weights if w.data_type != onnx.TensorProto.FLOAT)
    assert found == 12 * floats + others
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("verify", "more"), [(None, -1), (True, -1), (None, 0)])
def test_what_memory_does_not_hold_is_verified_only_if_asked_for(
    verify: bool | None, more: int, needed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "memory", lambda: needed + more)
    report = convert.convert(MODEL, "onnx", tmp_path / "out.onnx", verify=verify)
    assert (tmp_path / "out.onnx").exists()
    if verify is None and more < 0:
        assert report.verdict is None
        assert "of memory (--verify tries it all the same)" in report.unverified
    else:
        assert report.verdict is not None
        assert report.verdict.status == "PASS"


@pytest.mark.parametrize(("times", "in_turn"), [(4, 0), (3, 2)])
def test_runs_that_do_not_fit_together_are_run_in_turn(
    times: int, in_turn: int, needed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []
    finish = RunningChild.finish
    monkeypatch.setattr(RunningChild, "finish", lambda child: (waited.append(child.source.label), finish(child)))
    monkeypatch.setattr(machine, "memory", lambda: times * needed)
    report = convert.convert(MODEL, "onnx", tmp_path / "out.onnx", verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert len(waited) == in_turn, waited


def test_the_limit_that_a_user_gave_counts(tmp_path: Path, needed: int) -> None:
    from convert.parity.method import VerifyMethod

    method = VerifyMethod(limits=Limits(memory=needed - 1))
    report = convert.convert(MODEL, "onnx", tmp_path / "out.onnx", method=method)
    assert report.verdict is None
    assert "of memory" in report.unverified
