"""Exported programs that PyTorch 2.1 and 2.4 saved, in schemas that current releases do not load."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.files.old_exported import CURRENT, old_schema
from convert.frontends.pytorch.torch_internals import export_schema

import convert
from convert.errors import BadInput, UnsafeInput
from tests.support import hostile

PROGRAM = "serialized_exported_program.json"


def _extracted(fixtures: Path, release: str, name: str, folder: Path) -> Path:
    with zipfile.ZipFile(fixtures / "museum" / f"pytorch-{release}.zip") as archive:
        return Path(archive.extract(name, folder))


def _changed(path: Path, **changes: Callable[[bytes], bytes]) -> Path:
    """Write an archive with other content beside `path`: the program's, or the version's."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content[PROGRAM] = changes.get("program", bytes)(content[PROGRAM])
    content["version"] = changes.get("version", bytes)(content["version"])
    return hostile.write_zip(path.with_name("changed.pt2"), list(content.items()))


def test_the_schema_was_compared_with_that_of_the_installed_release() -> None:
    """A new schema needs the comparison in `old_exported`'s docstring again."""
    assert export_schema()[0] == CURRENT


def test_a_dynamic_batch_is_verified(tmp_path: Path, fixtures: Path) -> None:
    path = _extracted(fixtures, "2.4.1", "sized_conv1d.pt2", tmp_path)
    assert old_schema(path) == 5
    done = convert.convert(path, "onnx", tmp_path / "m.onnx")
    assert done.verdict is not None
    assert done.verdict.status == "PASS"
    (given,) = convert.inspect(tmp_path / "m.onnx").inputs
    assert not isinstance(given.shape[0], int)


def test_a_current_program_is_read_as_it_is(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),))
    torch.export.save(program, tmp_path / "m.pt2")
    assert old_schema(tmp_path / "m.pt2") is None


def _edited(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    def edited(content: bytes) -> bytes:
        program = json.loads(content)
        change(program)
        return json.dumps(program).encode()

    return edited


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        pytest.param({"version": lambda _: b"4.1"}, BadInput, "schema 4, which PyTorch", id="other-schema"),
        pytest.param({"program": lambda _: b"{}"}, BadInput, "damaged", id="no-program"),
        pytest.param({"program": lambda _: b"["}, BadInput, "damaged", id="no-json"),
        pytest.param(
            {"program": _edited(lambda p: p["graph_module"]["graph"]["nodes"][0].update(target="torch.os.system"))},
            UnsafeInput,
            "not an operator",
            id="code",
        ),
    ],
)
def test_refused(changes: dict[str, Any], kind: type[Exception], words: str, tmp_path: Path, fixtures: Path) -> None:
    path = _changed(_extracted(fixtures, "2.4.1", "sized_conv1d.pt2", tmp_path), **changes)
    with pytest.raises(kind, match=words):
        convert.convert(path, "onnx", tmp_path / "m.onnx", verify=False)
    assert not (tmp_path / "m.onnx").exists()


def test_pytorch_2_1_is_named(tmp_path: Path, fixtures: Path) -> None:
    path = _extracted(fixtures, "2.1.2", "exported_mlp.pt2", tmp_path)
    with pytest.raises(BadInput, match=r"schema 1, which PyTorch .* does not load"):
        convert.convert(path, "onnx", tmp_path / "m.onnx", verify=False)
