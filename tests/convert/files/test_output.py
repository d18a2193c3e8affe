"""Atomic outputs: all or nothing, for files, folders and companions."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Literal

import pytest

import convert
from convert.errors import ResourceLimit, UsageError
from convert.files.output import atomic_replacement, size_of

MNIST = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.pt"


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_appears_when_complete(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "m.onnx"
    with atomic_replacement(out, force=False) as temporary:
        temporary.write_text("new")
        assert not out.exists()
    assert out.read_text() == "new"
    assert names(out.parent) == ["m.onnx"]


def test_an_existing_output_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    out.write_text("old")
    with pytest.raises(UsageError, match="exists already"), atomic_replacement(out, force=False):
        raise AssertionError("the body ran")
    assert out.read_text() == "old"


@pytest.mark.parametrize("folder", [False, True])
def test_failure_leaves_the_old_one_untouched(tmp_path: Path, folder: bool) -> None:
    out = tmp_path / "m"
    if folder:
        out.mkdir()
        (out / "predict_net.pb").write_text("old")
    else:
        out.write_text("old")
    with pytest.raises(RuntimeError), atomic_replacement(out, force=True) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise RuntimeError("broken off")
    assert (out / "predict_net.pb" if folder else out).read_text() == "old"
    assert names(tmp_path) == ["m"]


def test_a_folder_replaces_a_folder_and_companions_move_along(tmp_path: Path) -> None:
    out = tmp_path / "m.savedmodel"
    out.mkdir()
    (out / "saved_model.pb").write_text("old")
    with atomic_replacement(out, force=True) as temporary:
        temporary.mkdir()
        (temporary / "fresh").write_text("12345")
        temporary.with_name("m.data").write_text("weights")
    assert names(out) == ["fresh"]
    assert size_of(out) == 5
    assert names(tmp_path) == ["m.data", "m.savedmodel"]


@pytest.mark.not_core
@pytest.mark.parametrize("layout", ["nets", "metanet", "mobile"])
def test_a_caffe2_folder_is_replaced_unless_it_holds_more(
    layout: Literal["nets", "metanet", "mobile"], tmp_path: Path
) -> None:
    out = tmp_path / "m.caffe2"
    for _ in range(2):
        convert.convert(MNIST, "caffe2", out, caffe2_layout=layout, verify=False, force=True)
    (out / "mine").write_text("")
    with pytest.raises(UsageError, match=r"holds other things than a model, such as mine"):
        convert.convert(MNIST, "caffe2", out, caffe2_layout=layout, verify=False, force=True)
    assert (out / "mine").exists()


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("file: No space left on device [Op:Save]")]
)
def test_a_full_disk_is_a_resource_limit(error: Exception, tmp_path: Path) -> None:
    out = tmp_path / "m"
    out.write_text("old")
    with pytest.raises(ResourceLimit, match="disk is full"), atomic_replacement(out, force=True):
        raise error
    assert out.read_text() == "old"


def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), atomic_replacement(tmp_path / "file" / "m", force=False):
        raise AssertionError("the body ran")


def test_a_folder_that_is_gone_is_a_usage_error(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_replacement(tmp_path / "a" / "m", force=False) as temporary:
            shutil.rmtree(temporary.parent)
            temporary.write_text("")

    with pytest.raises(UsageError, match="cannot be written: No such file"):
        write()
