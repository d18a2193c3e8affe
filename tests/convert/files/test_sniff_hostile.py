"""`sniff` on truncated, changed and hostile files."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from convert import limits
from convert.errors import BadInput, ResourceLimit, UnsafeInput
from convert.files.sniff import sniff
from tests.convert.files.test_sniff import FIXTURES, kind_or_error
from tests.support import hostile


@pytest.mark.parametrize("link", ["variables/variables.index", "assets/vocabulary.txt", "assets/more/vocabulary.txt"])
def test_links_that_leave_a_savedmodel_are_refused(tmp_path: Path, fixtures: Path, link: str) -> None:
    folder = tmp_path / "model"
    (folder / link).parent.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes((fixtures / "mnist_cnn.savedmodel" / "saved_model.pb").read_bytes())
    assert sniff(folder) == "savedmodel"
    hostile.leaving_link(folder / link, tmp_path / "secret")
    with pytest.raises(UnsafeInput, match=r"outside of the model's folder"):
        sniff(folder)


@pytest.mark.parametrize("name", ["config.1.json", "generation_config.json", "adapter_config.json"])
@pytest.mark.parametrize("form", ["pipe", "device", "link", "holes"])
def test_a_configuration_that_is_no_small_file_is_refused(tmp_path: Path, name: str, form: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("x")
    assert sniff(tmp_path) == "hf-folder"
    place = tmp_path / name
    if form == "pipe":
        os.mkfifo(place)
    elif form == "holes":
        place.touch()
        os.truncate(place, 1 << 40)
    else:
        place.symlink_to("/dev/zero" if form == "device" else "/etc/passwd")
    with pytest.raises(BadInput if form in ("pipe", "holes") else UnsafeInput, match=name):
        sniff(tmp_path)


@pytest.mark.parametrize("place", ["a folder", "a folder with a model", "a manifest", "a pattern"])
def test_commands_in_hints_can_be_copied_to_a_shell(tmp_path: Path, place: str) -> None:
    path = tmp_path / {"a manifest": "';touch x;'.toml", "a pattern": "';touch x;'*"}.get(place, "';touch x;'")
    if place == "a manifest":
        path.write_text("[[models]]")
    elif place != "a pattern":
        (path / "below").mkdir(parents=True)
        if place == "a folder with a model":
            (path / "m.onnx").touch()
    with pytest.raises(BadInput) as refused:
        sniff(path)
    words = shlex.split(refused.value.hint[refused.value.hint.index("convert batch") :].partition("`")[0])
    assert words[:3] == ["convert", "batch", str(path)]


@pytest.mark.parametrize("kind", ["parent", "absolute", "backslash", "drive", "twice", "link", "bomb", "overlap"])
def test_hostile_archives(tmp_path: Path, kind: str) -> None:
    entries = [("archive/data.pkl", hostile.PROTO2 + hostile.EMPTY_DICT + hostile.STOP), ("archive/version", b"3\n")]
    with pytest.raises(UnsafeInput) as raised:
        sniff(hostile.hostile_zip(kind, tmp_path, entries))
    assert raised.value.exit_code == 5
    assert raised.value.hint


@pytest.mark.parametrize("write", [hostile.write_torch_zip, hostile.write_torch_legacy], ids=["zip", "legacy"])
def test_sniffing_executes_no_pickle(tmp_path: Path, write: Callable[[Path, bytes], Path]) -> None:
    marker = tmp_path / "executed"
    for name, (data, _) in hostile.pickles(marker).items():
        kind_or_error(write(tmp_path / "model.pt", data))
        assert not marker.exists(), name
    for data in hostile.broken_pickles().values():
        with pytest.raises(BadInput):
            sniff(write(tmp_path / "model.pt", data))


# Kinds whose truncated files are always recognized as broken. ONNX and GraphDef files may end after any field.
_ALWAYS_SEEN = ("torch-module", "torch-state-dict", "torchscript", "torch-export", "safetensors", "keras")


@pytest.mark.parametrize("name", [name for name in FIXTURES if not name.endswith(".savedmodel")])
def test_truncated_files(fixtures: Path, tmp_path: Path, name: str) -> None:
    kinds = [kind_or_error(copy) for copy in hostile.truncations(fixtures / name, tmp_path)]
    assert len(kinds) >= 20
    allowed = {""} if FIXTURES[name] in _ALWAYS_SEEN else {"", FIXTURES[name]}
    assert set(kinds) <= allowed
    assert kinds.count("") >= 18


@pytest.mark.not_core
def test_truncated_legacy_and_hdf5_files(tmp_path: Path) -> None:
    import h5py
    import torch

    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 2), path, _use_new_zipfile_serialization=False)
    kinds = [kind_or_error(copy) for copy in hostile.truncations(path, tmp_path)]
    assert set(kinds[:-2]) == {""}  # the last two have lost weights only
    for libver in ("earliest", "latest"):
        path = tmp_path / f"{libver}.h5"
        with h5py.File(path, "w", libver=libver) as file:
            file["weights"] = [1.0] * 1000
        assert sniff(path) == "keras-h5"
        assert {kind_or_error(copy) for copy in hostile.truncations(path, tmp_path)} == {""}


@pytest.mark.parametrize("name", [name for name in FIXTURES if not name.endswith(".savedmodel")])
def test_changed_bytes_never_crash(fixtures: Path, tmp_path: Path, name: str) -> None:
    for copy in hostile.mutations(fixtures / name, tmp_path, 40):
        kind_or_error(copy)
        copy.unlink()


def test_nested_and_endless_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROTOBUF_FIELDS", 10_000)
    message = b""
    for _ in range(2000):
        message = b"\x3a" + _varint(len(message)) + message
    path = tmp_path / "deep.onnx"
    path.write_bytes(b"\x08\x07" + message)
    kind_or_error(path)
    path.write_bytes(b"\x08\x07" * (limits.PROTOBUF_FIELDS + 1))
    with pytest.raises(BadInput):
        sniff(path)
    path.write_bytes(b"\xff" * 1000)
    with pytest.raises(BadInput, match="unknown format"):
        sniff(path)


def _varint(value: int) -> bytes:
    digits = []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def test_archives_of_endless_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_ENTRIES", 100)
    with pytest.raises(ResourceLimit):
        sniff(hostile.write_zip(tmp_path / "many.pt", [(f"m/data/{i}", b"") for i in range(101)]))


def test_a_folder_of_more_entries_than_are_looked_at_is_refused(
    tmp_path: Path, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the entries beyond the limit might be a link that leads out of the folder."""
    shutil.copytree(fixtures / "mnist_cnn.savedmodel", tmp_path / "m")
    assert sniff(tmp_path / "m") == "savedmodel"
    monkeypatch.setattr(limits, "FOLDER_ENTRIES", 3)
    for place in (tmp_path / "m", tmp_path / "m" / "variables"):
        for number in range(4):
            (place / f"more{number}").write_text("x")
        with pytest.raises(BadInput, match="more than 3 entries"):
            sniff(tmp_path / "m")
        for file in place.glob("more*"):
            file.unlink()
