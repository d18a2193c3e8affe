"""Outputs that would overwrite an input, or a file that convert has not written, are refused, even with --force."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import convert
from convert import plugin
from convert.cli import cli
from convert.errors import UsageError
from convert.files.output import atomic_replacement
from convert.files.output_place import check_apart, check_replaceable
from tests.support.hostile import OLD_ONNX
from tests.support.marks import slow

FIXTURES = Path(__file__).parents[3] / "fixtures"
FORMS = list(plugin.formats().values())


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


PLACES = {
    "itself": "zoo/m.onnx",
    "by another way": "zoo/../zoo/m.onnx",
    "by a link": "link.onnx",
    "by a hard link": "hard.onnx",
    "around it": "zoo",
    "around that": ".",
}


@pytest.mark.parametrize("to", ["onnx", "tf"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_source_is_never_replaced(tmp_path: Path, place: str, to: str) -> None:
    source = tmp_path / "zoo" / "m.onnx"
    source.parent.mkdir()
    shutil.copy(FIXTURES / "mnist_cnn.onnx", source)
    (tmp_path / "link.onnx").symlink_to(source)
    os.link(source, tmp_path / "hard.onnx")
    before = content(tmp_path)
    with pytest.raises(UsageError) as caught:
        convert.convert(source, to, tmp_path / place, force=True, verify=False)
    assert caught.value.exit_code == 2
    assert content(tmp_path) == before


@pytest.mark.not_core
@pytest.mark.parametrize("place", ["", "saved_model.pb", "variables", "variables/m.onnx", "assets/new/m.onnx", ".."])
def test_a_source_that_is_a_folder_is_never_written_into(tmp_path: Path, place: str) -> None:
    source = tmp_path / "m.savedmodel"
    shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", source)
    before = content(tmp_path)
    with pytest.raises(
        UsageError, match=r"is the source itself|inside of the source|holds the source|names the format"
    ):
        convert.convert(source, "onnx", source / place, force=True, verify=False)
    assert content(tmp_path) == before


def external(folder: Path, location: str) -> Path:
    """Return a model whose weights are in the file `location` beside it, as bytes of another model."""
    model = bytes([8, 8, 0x3A, 20, 0x12, 18]) + 18 * b"w"
    w = numpy_helper.from_array(np.frombuffer(model, np.float32).reshape(2, 3), "w")
    onnx.external_data_helper.set_external_data(w, location)
    (folder / location).write_bytes(w.raw_data)
    w.ClearField("raw_data")
    w.data_location = onnx.TensorProto.EXTERNAL
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [1, 2]), ("y", [1, 3]))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [w])
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    return path


def test_the_weights_of_the_source_are_never_replaced(tmp_path: Path) -> None:
    source = external(tmp_path, "b.onnx")
    before = content(tmp_path)
    with pytest.raises(UsageError, match="is the source itself"):
        convert.convert(source, "onnx", tmp_path / "b.onnx", force=True, verify=False)
    assert content(tmp_path) == before


def test_nor_by_a_file_beside_the_output(tmp_path: Path) -> None:
    data = tmp_path / "b.onnx.data"
    data.write_bytes(b"weights")

    def write() -> None:
        with atomic_replacement(tmp_path / "b.onnx", force=False, read=[data]) as temporary:
            temporary.write_bytes(b"graph")
            temporary.with_name("b.onnx.data").write_bytes(b"other")

    with pytest.raises(UsageError, match="is the source itself"):
        write()
    assert content(tmp_path) == {"b.onnx.data": b"weights"}


@pytest.mark.parametrize(
    ("present", "named", "replaced"),
    [
        (("m.onnx.data",), "", False),
        (("m.onnx", "m.onnx.data"), "other.data", False),
        (("n.onnx", "m.onnx.data"), "m.onnx.data", False),
        (("m.onnx", "notes.json"), "notes.json", False),
        (("m.onnx", "m.onnx.data"), "m.onnx.data", True),
        (("m.onnx", "n.onnx", "n.onnx.data"), "n.onnx.data", True),
    ],
)
def test_what_is_no_part_of_the_old_model_stays(
    tmp_path: Path, present: tuple[str, ...], named: str, replaced: bool
) -> None:
    """--force replaces what the user names, and not a file beside it that only happens to have the name of weights."""
    for name in present:
        (tmp_path / name).write_text(f"mine; weights in {named}" if name.endswith(".onnx") else "mine")
    before = content(tmp_path)

    def write() -> None:
        with atomic_replacement(tmp_path / "m.onnx", force=True) as temporary:
            for name in ("m.onnx", "m.onnx.data", "n.onnx", "n.onnx.data", "notes.json"):
                if name in (*present, "m.onnx"):
                    temporary.with_name(name).write_text("new")

    if replaced:
        write()
        assert set(content(tmp_path).values()) == {b"new"}
    else:
        with pytest.raises(UsageError, match="it would be destroyed"):
            write()
        assert content(tmp_path) == before


def test_nor_does_a_conversion_replace_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of a large network are written over a file of the user's, which is refused, and then over their own
    old file.
    """
    from convert.backends.onnx.writer import write_model

    monkeypatch.setitem(write_model.__kwdefaults__, "limit", 16)
    (tmp_path / "x.onnx.data").write_text("mine")
    with pytest.raises(UsageError, match=r"x\.onnx\.data is there already"):
        convert.convert(FIXTURES / "mnist_cnn.onnx", "onnx", tmp_path / "x.onnx", force=True, verify=False)
    assert content(tmp_path) == {"x.onnx.data": b"mine"}
    (tmp_path / "x.onnx.data").unlink()
    for opset in (20, 13):
        convert.convert(FIXTURES / "mnist_cnn.onnx", "onnx", tmp_path / "x.onnx", force=True, verify=False, opset=opset)
    assert onnx.load(tmp_path / "x.onnx").opset_import[0].version == 13


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("folder", [False, True])
def test_what_came_or_changed_meanwhile_is_left(tmp_path: Path, old: str | None, folder: bool) -> None:
    """--force replaces what existed when it was checked, which may have been an hour ago."""
    out = tmp_path / "m"
    if old is not None:
        out.write_text(old)
    with pytest.raises(UsageError, match="has changed meanwhile"), atomic_replacement(out, force=True) as temporary:  # noqa: PT012
        temporary.write_text("new")
        out.unlink(missing_ok=True)
        if folder:
            out.mkdir()
        (out / "mine" if folder else out).write_text("mine")
    assert (out / "mine" if folder else out).read_text() == "mine"
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("name", ["m.onnx", "link.onnx", "m.onnx.data"])
def test_pipes_and_devices_are_not_replaced(tmp_path: Path, name: str) -> None:
    """`--force -o /dev/null` would have removed /dev/null for the superuser."""
    place = tmp_path / name
    os.mkfifo(tmp_path / "m.onnx.data" if name == "m.onnx.data" else tmp_path / "m.onnx")
    if name == "link.onnx":
        place.symlink_to("m.onnx")
    before = place.lstat()
    with pytest.raises(UsageError, match="is a device, a pipe or a socket"):  # noqa: PT012
        check_replaceable(tmp_path / "m.onnx" if name == "m.onnx.data" else place, FORMS)
        with atomic_replacement(tmp_path / "m.onnx", force=True) as temporary:
            temporary.write_text("new")
            temporary.with_name("m.onnx.data").write_text("new")
    assert os.path.samestat(place.lstat(), before)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".convert-")]


def test_places_apart_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    check_apart(tmp_path / "a.onnx", [tmp_path / "a", tmp_path / "b.onnx"])
    check_apart(tmp_path / "a" / "m.onnx", [tmp_path / "a" / "m.pt"])


OTHERS: dict[str, bytes | Path] = {
    "thesis.tex": b"years",
    "notes": b"text",
    "data.npz": b"PK\x03\x04",
    ".bashrc": b"alias",
    "m.onnx": b"measured on Tuesday",
    "cut.onnx": OLD_ONNX[:-1],
    "m.pb": b"\x00\x01\x02",
    "m.keras": b"PK\x03\x04",
    "m.tflite": b"TFL3",
    "m.pt": FIXTURES / "mnist_cnn_state.pt",
    "m.pt2": FIXTURES / "mnist_cnn.pt",
    "m.caffe2": b"a list",
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_are_not_replaced(tmp_path: Path, name: str) -> None:
    """The name does not matter: training checkpoints, which convert never writes, are the user's work too."""
    held = OTHERS[name]
    (tmp_path / name).write_bytes(held if isinstance(held, bytes) else held.read_bytes())
    before = content(tmp_path)
    with pytest.raises(UsageError, match="--force would destroy it"):
        check_replaceable(tmp_path / name, FORMS)
    if name in ("thesis.tex", "m.onnx"):
        with pytest.raises(UsageError, match="--force would destroy it"):
            convert.convert(FIXTURES / "mnist_cnn.onnx", "onnx", tmp_path / name, force=True, verify=False)
    assert content(tmp_path) == before


SAVED = FIXTURES / "mnist_cnn.savedmodel"


@pytest.mark.parametrize(
    "more",
    ["notes.md", "variables/measured.csv", "assets/photo.jpg", "init_net.pb", "variables/old/x", ".git/config"],
)
def test_folders_that_hold_more_are_not_replaced(tmp_path: Path, more: str) -> None:
    out = tmp_path / "m"
    shutil.copytree(SAVED, out)
    (out / "assets").mkdir(exist_ok=True)
    check_replaceable(out, FORMS)
    (out / more).parent.mkdir(exist_ok=True)
    (out / more).write_text("")
    with pytest.raises(UsageError, match=f"such as {re.escape(more)}"):
        check_replaceable(out, FORMS)


@pytest.mark.parametrize(
    "files",
    [
        {"saved_model.pb": "notes"},
        {"saved_model.pb": "notes", "variables/variables.index": "an index"},
        {"init_net.pb": "net income", "predict_net.pb": "predicted net income"},
        {"predictor.minidb": "a diary"},
        {"model.py": "# a year's work", "model.safetensors": ""},
    ],
    ids=lambda files: next(iter(files)),
)
def test_nor_are_those_that_only_have_the_names_of_a_model(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=r"other things in them: --force would destroy it"):
        check_replaceable(tmp_path, FORMS)
    for name in files:
        (tmp_path / name).write_text("")
    check_replaceable(tmp_path, FORMS)


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.py")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match=r"such as model\.py"):
        check_replaceable(tmp_path, FORMS)


def test_a_module_of_the_users_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("# a year's work")
    with pytest.raises(UsageError, match=r"such as model\.py"):
        check_replaceable(tmp_path, FORMS)


def identity(path: Path) -> Path:
    """Return a model with as few nodes as possible and no weights of its own."""
    ends = [helper.make_tensor_value_info(name, 1, ["n", 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.mark.not_core
@pytest.mark.parametrize(
    "form", slow(FORMS, *(plugin.formats()[name] for name in ("tflite", "executorch"))), ids=lambda form: form.name
)
def test_every_format_is_known_again(tmp_path: Path, form: plugin.Format) -> None:
    """convert replaces its own outputs, even the smallest model, under any name."""
    missing = getattr(plugin.backend_for(form.name), "missing_reason", str)()
    if missing:  # a vendor's converter, which no other test needs
        pytest.skip(missing)
    convert.convert(
        identity(tmp_path / "x.onnx"), form.name, tmp_path / f"m{form.suffix}", inputs="x:float32[n=1..4,2]",
        verify=False,
    )  # fmt: skip
    os.rename(tmp_path / f"m{form.suffix}", tmp_path / "any")
    check_replaceable(tmp_path / "any", FORMS)


def test_a_link_in_a_folder_is_no_part_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "variables").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="such as variables"):
        check_replaceable(tmp_path / "m", FORMS)


def test_another_name_of_the_same_place_is_that_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on case-insensitive file systems: both names lead to one file, without a link that would show it."""
    (tmp_path / "Zoo" / "m.savedmodel").mkdir(parents=True)
    same = os.path.samefile

    def samefile(one: Path, other: Path) -> bool:
        return same(*(Path(str(p).replace("zoo", "Zoo").replace("M.Saved", "m.saved")) for p in (one, other)))

    monkeypatch.setattr(os.path, "samefile", samefile)
    source = tmp_path / "Zoo" / "m.savedmodel"
    for place in ("zoo/M.Savedmodel", "zoo/m.savedmodel/new/m.onnx", "zoo"):
        with pytest.raises(UsageError, match="source"):
            check_apart(tmp_path / place, [source])
    check_apart(tmp_path / "zoo" / "other", [source])


@pytest.mark.not_core
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("m.onnx --to onnx -o n.onnx --force --report m.onnx", "m.onnx is the source itself"),
        ("m.onnx --to onnx -o n.onnx --force --report ./zoo/../m.onnx", "is the source itself"),
        ("m.onnx --to onnx -o n.onnx --force --save-inputs hard.onnx", "is the source itself"),
        ("m.onnx --to onnx -o n.onnx --force --report notes.html", "holds something else"),
        ("m.onnx --to onnx -o n.onnx --force --save-inputs other.keras", "holds something else"),
        ("m.onnx --to onnx -o n.onnx --force --dump-passes .", "holds the source"),
        ("m.onnx --to onnx -o n.onnx --force --dump-passes zoo/../n.onnx", "the output and --dump-passes would both"),
        ("m.onnx --to onnx -o new.onnx --report new.onnx", "the output and --report would both"),
        ("m.onnx --to onnx -o new.onnx --save-inputs zoo/../new.onnx", "the output and --save-inputs would both"),
        ("m.onnx --to onnx -o new.onnx --reduce new.onnx", "the output and --reduce would both"),
        ("m.onnx --to onnx -o new.onnx --report new --save-inputs new", "--report and --save-inputs would both"),
        ("m.onnx --to onnx -o new.onnx --report m.onnx/page.html", "is no folder"),
        ("batch zoo --to onnx -o out --report new --junit new", "--report and --junit would both"),
        ("batch zoo --to onnx -o out --junit out/journal.jsonl", "the journal and --junit would both"),
        ("batch zoo --to onnx -o out --report out/a.onnx", "the output of a model and --report would both"),
        ("verify m.onnx other.keras --report other.keras", "is the source itself"),
        ("verify m.onnx other.keras --inputs in.npz --save-inputs in.npz", "is the source itself"),
        ("batch zoo m.savedmodel --to onnx -o m.savedmodel", "is the source of another model"),
        ("batch zoo m.savedmodel --to onnx -o out --journal m.savedmodel/new", "inside of the source"),
        ("batch zoo --to onnx -o out --report zoo/a.onnx", "is the source itself"),
        ("batch zoo --to onnx -o taken", "is no journal"),
    ],
)
def test_no_option_writes_over_what_is_read_or_of_others(
    tmp_path: Path, words: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("m.onnx", "zoo/a.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(FIXTURES / "mnist_cnn.onnx", tmp_path / name)
    os.link(tmp_path / "m.onnx", tmp_path / "hard.onnx")
    shutil.copy(FIXTURES / "mnist_cnn.keras", tmp_path / "other.keras")
    shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", tmp_path / "m.savedmodel")
    (tmp_path / "notes.html").write_text("<html>mine")
    np.savez(tmp_path / "in.npz", image=np.zeros((2, 1, 28, 28), np.float32))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "journal.jsonl").write_text('{"dear": "diary"}\n')
    before = content(tmp_path)
    # The command line handles signals, but this process belongs to the tests.
    monkeypatch.setattr("convert.cli.signals.raise_in_main_thread", lambda: None)
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(cli, words.split())
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr
    assert content(tmp_path) == before


def test_models_and_what_is_empty_are_replaced(tmp_path: Path) -> None:
    for name, held in (("a.onnx", OLD_ONNX), ("b.tflite", b""), ("c", b""), ("d", FIXTURES / "mnist_cnn.onnx")):
        (tmp_path / name).write_bytes(held if isinstance(held, bytes) else held.read_bytes())
        check_replaceable(tmp_path / name, FORMS)
    (tmp_path / "empty").mkdir()
    check_replaceable(tmp_path / "empty", FORMS)
    check_replaceable(tmp_path / "none", FORMS)
