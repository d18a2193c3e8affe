"""Tensors of files that torch.save wrote without zip, and tensors that are missing in the file."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from convert.errors import BadInput, UnsafeInput
from convert.files.legacy_storages import check_legacy_storages
from tests.convert.files.test_storages import views
from tests.suites.hostile_files.pickle_files import before_zip
from tests.support.hostile import write_torch_legacy


@pytest.mark.parametrize("name", before_zip())
def test_what_is_not_in_the_file_is_not_read(name: str, tmp_path: Path) -> None:
    path = write_torch_legacy(tmp_path / "m.pt", *before_zip()[name])
    with pytest.raises((UnsafeInput, BadInput)):
        check_legacy_storages(path)


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")
@pytest.mark.parametrize("name", views())
def test_views_of_every_kind_are_taken(name: str, tmp_path: Path) -> None:
    torch.save({"w": views()[name], "again": views()[name]}, tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    check_legacy_storages(tmp_path / "m.pt")


def test_a_part_of_a_storage_is_taken_as_PyTorch_0_3_wrote_it(tmp_path: Path) -> None:
    from tests.suites.hostile_files.pickle_files import MARK, number, storage, tensor, text, weights

    part = storage(length=4, more=MARK + text("part") + number(1) + number(2) + b"t")
    held = b"\4" + bytes(7) + torch.arange(4.0).numpy().tobytes()
    path = write_torch_legacy(tmp_path / "m.pt", weights(tensor(part, sizes=(2,), strides=(1,))), ("0",), held)
    check_legacy_storages(path)
    assert torch.load(path, weights_only=True)["weight"].tolist() == [1.0, 2.0]


def test_a_network_is_taken(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(torch.nn.GRU(3, 4, 2), tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    check_legacy_storages(tmp_path / "m.pt")
