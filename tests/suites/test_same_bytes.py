"""The same model becomes the same bytes in every format: by default twice in this process, with `-m long` in others."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import same_bytes

from tests.support.processors import PROCESSORS

QUICK = ("onnx", "tf", "tf-frozen", "keras", "caffe2")
VARIANTS = [pytest.param(v, marks=[] if v in QUICK else [pytest.mark.long]) for v in same_bytes.VARIANTS]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_output_is_the_same_in_another_folder(variant: str, tmp_path: Path) -> None:
    runs = [same_bytes.convert_all(["loops", "onnx"], [variant], tmp_path / name) for name in ("a", "another place")]
    assert len(runs[0]["onnx → " + variant]) >= 1
    assert "unsupported" not in runs[0]["onnx → " + variant]
    assert same_bytes.compare(runs) == []


def test_a_keras_file_does_not_tell_when_it_was_written(tmp_path: Path) -> None:
    same_bytes.convert_all(["onnx"], ["keras"], tmp_path)
    with zipfile.ZipFile(tmp_path / "onnx keras" / "m.keras") as archive:
        assert {i.date_time for i in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert b"1980" in archive.read("metadata.json")


def test_outputs_that_differ_are_told() -> None:
    runs = [{"a → tf": {"m/x": "1", "m/y": "2"}}, {"a → tf": {"m/x": "1", "m/y": "3", "m/z": "4"}}]
    assert same_bytes.compare(runs) == ["a → tf: m/y", "a → tf: m/z"]


@pytest.mark.long
def test_any_hash_seed_writes_the_same(tmp_path: Path) -> None:
    runs = []
    for seed in (1, 2, 3):
        runs += same_bytes.run_in_process(seed, list(same_bytes.SOURCES), list(same_bytes.VARIANTS), tmp_path)
    assert same_bytes.compare(runs) == []


@pytest.mark.slow
def test_another_processor_writes_the_same(tmp_path: Path) -> None:
    runs = []
    for processor in PROCESSORS:
        runs += same_bytes.run_in_process(1, ["constants"], ["onnx", "caffe2", "torch"], tmp_path, processor)
    assert not any("unsupported" in files for files in runs[0].values())
    assert same_bytes.compare(runs) == []


@pytest.mark.slow
def test_another_hash_seed_writes_the_same_onnx_and_caffe2(tmp_path: Path) -> None:
    """A process without a framework takes one second."""
    variants = ["onnx", "onnx, external data", "caffe2"]
    runs = same_bytes.run_in_process(1, ["onnx"], variants, tmp_path)
    assert same_bytes.compare([*runs, same_bytes.convert_all(["onnx"], variants, tmp_path / "here")]) == []
