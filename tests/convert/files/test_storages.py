"""Tensors of PyTorch archives that are longer than their data in the file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from convert.errors import UnsafeInput
from convert.files.storages import check_storages
from tests.suites.hostile_files.pickle_files import made_of_nothing
from tests.suites.hostile_files.pickle_files import weights as pickled_weights
from tests.support.hostile import write_torch_zip


def rewritten(path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """Return the archive with its entries changed."""
    with zipfile.ZipFile(path) as archive:
        entries = {n: archive.read(n) for n in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, change(name.partition("/")[2], content))
    return path


def weights(path: Path) -> None:
    torch.save({"w": torch.arange(4.0)}, path)


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w


def script(path: Path) -> None:
    torch.jit.script(Scale()).save(str(path))


class Constant(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(4.0)


def constant(path: Path) -> None:
    torch.jit.save(torch.jit.freeze(torch.jit.trace(Constant().eval(), torch.ones(4))), str(path))


def shorter(name: str, content: bytes) -> bytes:
    return content[:4] if name.endswith("/0") else content


def replaced(*pairs: tuple[bytes, bytes]) -> Callable[[str, bytes], bytes]:
    """Return a pickle with a number changed, as `torch.save` or TorchScript writes it."""

    def change(name: str, content: bytes) -> bytes:
        if name in ("data.pkl", "constants.pkl"):
            for old, new in pairs:
                content = content.replace(old, new, 1)
        return content

    return change


CHANGES: dict[str, Callable[[str, bytes], bytes]] = {
    "shorter storage": shorter,
    "longer tensor": replaced((b"K\x04\x85", b"K\x10\x85"), (b"(K\x04t(", b"(K\x10t(")),
    "longer step": replaced((b"K\x01\x85", b"K\x09\x85"), (b"t(K\x01t", b"t(K\x09t")),
    "later start": replaced((b"QK\x00", b"QK\x09"), (b"Qq\x07K\x00", b"Qq\x07K\x09"), (b"Qq\x05K\x00", b"Qq\x05K\x09")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("write", [weights, script, constant])
def test_what_is_not_in_the_file_is_not_read(tmp_path: Path, write: Callable[[Path], None], change: str) -> None:
    path = tmp_path / "m.pt"
    write(path)
    check_storages(path)
    before = path.read_bytes()
    rewritten(path, CHANGES[change])
    assert path.read_bytes() != before
    with pytest.raises(UnsafeInput, match=r"has a tensor whose numbers are not in the file: "):
        check_storages(path)


def views() -> dict[str, Any]:
    whole = torch.arange(24.0).reshape(2, 3, 4)
    return {
        "transposed": whole.permute(2, 0, 1), "row": whole[1, 2], "column": whole[:, :, 3], "none": whole[:0],
        "same": whole[:1].expand(5, 3, 4), "number": whole[1, 2, 3], "short": whole.to(torch.float8_e4m3fn),
        "whole": torch.arange(3).to(torch.uint16), "complex": torch.ones(3, dtype=torch.complex64),
        "parameter": torch.nn.Parameter(whole), "sparse": whole[0].to_sparse(),
        "quantized": torch.quantize_per_tensor(whole, 0.1, 0, torch.qint8),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")
def test_views_of_every_kind_are_taken(tmp_path: Path) -> None:
    for name, view in views().items():
        torch.save({"w": view}, tmp_path / f"{name}.pt")
        check_storages(tmp_path / f"{name}.pt")


@pytest.mark.parametrize("name", ["mnist_cnn.pt2", "mnist_cnn_traced.pt", "mnist_cnn_scripted.pt", "mnist_cnn.pt"])
def test_fixtures_are_taken(fixtures: Path, name: str) -> None:
    check_storages(fixtures / name)


@pytest.mark.parametrize("name", made_of_nothing())
def test_tensors_of_no_storage_are_not_read(tmp_path: Path, name: str) -> None:
    path = write_torch_zip(tmp_path / "m.pt", pickled_weights(made_of_nothing()[name]), [bytes(16)])
    with pytest.raises(UnsafeInput, match="not in the file"):
        check_storages(path)
