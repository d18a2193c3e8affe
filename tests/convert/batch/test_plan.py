"""The files that `convert batch` recognizes as models, and the key by which a task counts as done."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import onnx
import pytest

from convert.batch import run, show, task_key
from convert.batch.found_paths import SkippedPaths
from convert.batch.plan import Task, option_types, plan_tasks
from convert.batch.task_request import TaskRequest
from convert.cli.conversion import Conversion, conversion_of_task
from convert.errors import BadInput, UsageError
from convert.files import letter_case
from convert.request.options import parse_size
from tests.support.batch_tools import tasks_of, tiny

# -- plans ------------------------------------------------------------------------------------------------------------


def test_a_folder_is_every_model_in_it(tmp_path: Path) -> None:
    tiny(tmp_path / "zoo/a.onnx")
    tiny(tmp_path / "zoo/deep/b.onnx")
    tiny(tmp_path / "zoo/deep/a.onnx")
    (tmp_path / "zoo/twice.pt").write_bytes(b"x")
    tiny(tmp_path / "zoo/twice.onnx")
    (tmp_path / "zoo/notes.txt").write_text("no model")
    (tmp_path / "zoo/saved").mkdir()
    (tmp_path / "zoo/saved/saved_model.pb").write_bytes(b"x")
    found = tasks_of(tmp_path / "zoo", to=("onnx", "tf"), output=tmp_path / "out")
    names = ["a", "deep/a", "deep/b", "saved", "twice.onnx", "twice.pt"]
    assert sorted({t.name for t in found}) == names
    assert sorted(str(t.output.relative_to(tmp_path / "out")) for t in found) == sorted(
        name + suffix for name in names for suffix in (".onnx", ".savedmodel")
    )


@pytest.mark.parametrize(("second", "told"), [("net", "Net.onnx and "), ("net.onnx/x", "is also written")])
def test_names_that_differ_by_case_are_one_output_where_case_does_not_count(
    second: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On macOS and Windows one of the two outputs would silently be lost. On case-sensitive file systems they
    stay two.
    """
    tiny(tmp_path / "a.onnx")
    rows = "".join(f"[[models]]\nsource = 'a.onnx'\nname = '{name}'\n" for name in ("Net", second))
    (tmp_path / "zoo.toml").write_text(rows)
    assert len(tasks_of(tmp_path / "zoo.toml", to=("onnx",), output=tmp_path / "out")) == 2
    monkeypatch.setattr(letter_case, "counts_case", lambda folder: False)
    with pytest.raises(UsageError, match=told):
        tasks_of(tmp_path / "zoo.toml", to=("onnx",), output=tmp_path / "out")


def test_a_manifest_says_it_for_each_model(tmp_path: Path) -> None:
    tiny(tmp_path / "a.onnx")
    (tmp_path / "zoo.toml").write_text(
        """
        [defaults]
        to = ["onnx", "caffe2"]
        timeout = 60
        memory = "2GiB"
        opset = 17

        [[models]]
        source = "a.onnx"
        input = ["x:float32[2,3]"]

        [[models]]
        source = "a.onnx"
        name = "other"
        to = "tf"
        opset = 20
        calibrate = "data.npz"
        """
    )
    first, second, third = tasks_of(tmp_path / "zoo.toml", to=("tflite",))
    assert (first.name, first.format, second.format, third.name, third.format) == ("a", "onnx", "caffe2", "other", "tf")
    assert first.seconds == 60
    assert first.memory == 2 << 30
    assert first.options == {"verify": False, "opset": 17, "input": ["x:float32[2,3]"]}
    assert third.options == {"verify": False, "opset": 20, "calibrate": str(tmp_path / "data.npz")}


def asked_of_worker(task: Task) -> Conversion:
    """Return the conversion that the worker of a task makes of the text that it gets."""
    request = TaskRequest.from_json(TaskRequest.of(task).to_json())
    return conversion_of_task(request.source, request.format, request.output, request.options)


def test_options_of_a_manifest_reach_the_worker(tmp_path: Path) -> None:
    tiny(tmp_path / "a.onnx")
    (tmp_path / "zoo.toml").write_text(
        """
        [[models]]
        source = "a.onnx"
        to = "caffe2"
        caffe2_layout = "Mobile"
        calibrate = "data.npz"
        opset = 17
        input = ["x:float32[2,3]", "n=3"]
        model = "net.py:Net"
        model_arg = ["width=3"]
        code = ["classes.py"]
        outputs = "y,,z"
        signature = "serve"
        layout = "NHWC"
        inputs = "arrays.npz"
        seeds = 5
        rtol = 0.25
        atol = 0.5
        trust = true
        trace = true
        rules = ["rules.py"]
        """
    )
    (task,) = tasks_of(tmp_path / "zoo.toml")
    asked = asked_of_worker(task)
    assert (asked.source, asked.format, asked.output) == (tmp_path / "a.onnx", "caffe2", task.output)
    assert (asked.layout, asked.verify, asked.force, asked.dry_run) == ("nhwc", False, True, False)
    assert asked.declared == {"caffe2_layout": "mobile", "calibrate": tmp_path / "data.npz", "opset": 17}
    read = asked.read
    assert (read.inputs, read.model_args, read.outputs) == (("x:float32[2,3]", "n=3"), ("width=3",), ("y", "z"))
    assert (read.model, read.signature) == (str(tmp_path / "net.py:Net"), "serve")
    assert (read.code, read.rules) == ((tmp_path / "classes.py",), (tmp_path / "rules.py",))
    assert read.trust
    assert read.trace
    checked = asked.verification
    assert (checked.arrays, checked.seeds, checked.rtol, checked.atol) == (tmp_path / "arrays.npz", 5, 0.25, 0.5)
    assert asked.shown.as_json


def test_a_worker_takes_every_option_of_a_manifest() -> None:
    """What a manifest may set and `conversion_of_task` does not know would fail in the worker only."""
    examples = {str: "nchw", int: 1, float: 0.5, bool: True, list: ["x"]}
    for name, kinds in option_types().items():
        kind = kinds[-1] if isinstance(kinds, tuple) else kinds
        conversion_of_task("m.onnx", "onnx", "out.onnx", {name: examples[kind]})


def test_a_worker_refuses_what_is_no_option() -> None:
    with pytest.raises(UsageError, match="opsett"):
        conversion_of_task("m.onnx", "onnx", "out.onnx", {"opsett": 17})
    with pytest.raises(UsageError, match="nchw, nhwc"):
        conversion_of_task("m.onnx", "onnx", "out.onnx", {"layout": "chwn"})


def test_a_path_of_any_bytes_reaches_the_worker() -> None:
    name = os.fsdecode(b"m\xff.onnx")
    assert asked_of_worker(Task("m", Path(name), "onnx", Path("out.onnx"))).source == Path(name)


@pytest.mark.parametrize("name", ["--rules", "-x.onnx", "verify", "onnx"])
def test_no_name_of_a_model_is_an_option_or_a_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that parsed its words would execute the file `--to` for a model named `--rules`."""
    monkeypatch.chdir(tmp_path)
    tiny(tmp_path / name)
    (task,) = plan_tasks(["."], ["onnx"], Path("out"), {"verify": False}, 60.0, None)
    asked = asked_of_worker(task)
    assert (str(asked.source), asked.read.rules) == (name, ())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("models = 3", "needs"),
        ("[[models]]\nname = 'a'", "no source"),
        ("[[models]]\nsource = 'a.onnx'\nopsett = 3", "opsett"),
        ("[[models]]\nsource = 'a.onnx'\nopset = 'new'", "wrong type"),
        ("[[models", "no manifest"),
        ("[[models]]\nsource = 'a.onnx'\nto = 'caffe3'", "caffe3"),
        ("[[models]]\nsource = 'a.onnx'\n[[models]]\nsource = 'b/a.onnx'", "several models"),
        ("[[models]]\nsource = 'a.onnx'\nmemory = 'much'", "not an amount"),
        ("[[models]]\nsource = 'a.onnx'\nmemory = '-5GB'", "not an amount"),
        ("[[models]]\nsource = 'a.onnx'\nmemory = 'inf'", "not an amount"),
        ("[[models]]\nsource = 'a.onnx'\ntimeout = 'long'", "wrong type"),
        ("[[models]]\nsource = 'a.onnx'\ntimeout = -1", "wrong type"),
        ("[[models]]\nsource = 'a.onnx'\nto = 3", "wrong type"),
        ("[[models]]\nsource = 'a.onnx'\nto = [3]", "wrong type"),
        ("[[models]]\nsource = 'a.onnx'\nrules = [3]", "wrong type"),
        (f"[[models]]\nsource = 'a.onnx'\ntimeout = 1{'0' * 400}", "wrong type"),
        ("[[models]]\nsource = 'a.onnx'\nmemory = 1000000000000000000000000000000", "not an amount"),
        ("[[models]]\nsource = 3", "no source"),
        ("defaults = 3\n[[models]]\nsource = 'a.onnx'", "needs"),
        ("models = [1, 2]", "needs"),
        pytest.param("a = " + "[" * 20_000, "no manifest", id="brackets"),
        pytest.param("a = 1" + "0" * 10_000, "no manifest", id="digits"),
        pytest.param("a = 0x" + "f" * 10_000, "more than 4,000 bits", id="digits of another base"),
        pytest.param("a" + ".a" * 1000 + " = 1", "more than 100 parts", id="parts of a key"),
        pytest.param('[[models]]\nsource = "a\\u0000.onnx"', "the character NUL", id="NUL"),
        pytest.param("#" + "x" * (64 << 20), "has more than 67,108,864 bytes", id="large"),
    ],
)
def test_a_broken_manifest_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "zoo.toml").write_text(text)
    with pytest.raises((BadInput, UsageError), match=complaint):
        tasks_of(tmp_path / "zoo.toml")


def test_a_glob_is_every_model_that_it_matches(tmp_path: Path) -> None:
    for name in ("a.onnx", "deep/b.onnx", "deep/c.pt"):
        tiny(tmp_path / name)
    (tmp_path / "a.txt").write_text("no model")
    assert [t.name for t in tasks_of(tmp_path / "*")] == ["a"]
    assert [t.name for t in tasks_of(tmp_path / "**/*.onnx")] == ["a", "b"]
    with pytest.raises(BadInput, match="names no model"):
        tasks_of(tmp_path / "*.keras")


def test_links_in_a_circle_leave_the_other_models_alone(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").symlink_to("b.onnx")
    (tmp_path / "b.onnx").symlink_to("a.onnx")
    tiny(tmp_path / "c.onnx")
    for named in (tmp_path, tmp_path / "*.onnx"):
        assert {t.name for t in tasks_of(str(named), to=["onnx"], output=tmp_path / "out")} == {"a", "b", "c"}


def test_what_a_name_does_not_tell_the_content_does(tmp_path: Path) -> None:
    tiny(tmp_path / "zoo/a.bin")
    (tmp_path / "zoo/noise.bin").write_bytes(bytes(range(255, 0, -1)))
    (tmp_path / "zoo/broken.onnx").write_bytes(b"")
    (tmp_path / "zoo/loop").symlink_to(tmp_path / "zoo")
    (tmp_path / "zoo/bert").mkdir()
    (tmp_path / "zoo/bert/config.json").write_text("{}")
    (tmp_path / "zoo/bert/pytorch_model.bin").write_bytes(b"x")
    assert [t.name for t in tasks_of(tmp_path / "zoo")] == ["a", "bert", "broken"]


def test_outputs_are_no_models_of_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "out/a.onnx", "out/deep/b.onnx"):
        tiny(tmp_path / name)
    assert [t.name for t in tasks_of(".")] == ["a"]
    assert [t.name for t in tasks_of("**/*.onnx")] == ["a"]
    assert [t.name for t in tasks_of("out", output=Path("."))] == ["a", "deep/b"]
    assert [t.name for t in tasks_of("out", output=Path("out"))] == ["a", "deep/b"]


def test_a_manifest_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "zoo.toml")
    with pytest.raises(BadInput, match="it is no file"):
        tasks_of(tmp_path / "zoo.toml", output=tmp_path / "out")


def test_a_row_of_a_manifest_may_name_many(tmp_path: Path) -> None:
    for name in ("one.onnx", "zoo/a.onnx", "zoo/deep/b.onnx"):
        tiny(tmp_path / name)
    rows = "".join(f"[[models]]\nsource = '{s}'\n" for s in ("one.onnx", "zoo", "zoo/deep/*.onnx", "missing.onnx"))
    (tmp_path / "zoo.toml").write_text(rows)
    assert [t.name for t in tasks_of(tmp_path / "zoo.toml")] == ["one", "a", "deep/b", "b", "missing"]
    (tmp_path / "zoo.toml").write_text("[[models]]\nsource = 'zoo'\nname = 'all'\n")
    with pytest.raises(BadInput, match="one name"):
        tasks_of(tmp_path / "zoo.toml")


def test_sizes() -> None:
    assert [parse_size(t) for t in ("8GB", "512MiB", "1.5 kb", "100")] == [8 * 10**9, 512 << 20, 1500, 100]


def test_a_link_in_the_output_folder_that_leads_out_of_it_is_refused(tmp_path: Path) -> None:
    tiny(tmp_path / "zoo/sub/a.onnx")
    (tmp_path / "mine").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/sub").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match=r"out/sub leads to .*mine, out of the output folder"):
        tasks_of(tmp_path / "zoo", output=tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert tasks_of(tmp_path / "zoo", output=tmp_path / "link")


# -- keys -------------------------------------------------------------------------------------------------------------


def test_the_key_is_of_content_options_and_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny(tmp_path / "a.onnx")
    task = Task("a", path, "onnx", tmp_path / "out", {"opset": 17})
    key = task_key.compute_key(task)
    assert task_key.compute_key(Task("b", path, "onnx", tmp_path / "elsewhere", {"opset": 17}, 5.0, 9)) == key
    assert task_key.compute_key(Task("a", path, "onnx", tmp_path / "out", {"opset": 18})) != key
    assert task_key.compute_key(Task("a", path, "tf", tmp_path / "out", {"opset": 17})) != key
    monkeypatch.setattr(task_key, "versions", lambda: {"torch": "0"})
    assert task_key.compute_key(task) != key
    monkeypatch.undo()
    tiny(path, seed=1)
    assert task_key.compute_key(task) != key


def test_the_key_is_of_external_data_and_of_files_that_options_name(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    onnx.save(onnx.load(tiny(path)), path, save_as_external_data=True, location="far.bin", size_threshold=0)
    (tmp_path / "rules.py").write_text("")
    task = Task("a", path, "onnx", tmp_path / "out", {"rules": [str(tmp_path / "rules.py")]})
    assert [p.name for p in task_key.dependency_files(task)] == ["a.onnx", "far.bin", "rules.py"]
    before = task_key.compute_key(task)
    (tmp_path / "far.bin").write_bytes((tmp_path / "far.bin").read_bytes()[::-1])
    changed = task_key.compute_key(task)
    (tmp_path / "rules.py").write_text("import os")
    assert len({before, changed, task_key.compute_key(task)}) == 3


def test_a_key_reads_what_was_written_of_a_file_with_holes(tmp_path: Path) -> None:
    """A tebibyte of holes takes no disk space and hours to read; only the written ranges between them are read."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"x" * 100)
    task = Task("a", path, "onnx", tmp_path / "out", {})
    keys = {task_key.compute_key(task)}
    for end, at in ((1 << 40, None), (1 << 40, 1 << 39), (1 << 41, None)):
        with path.open("r+b") as file:
            file.truncate(end)
            if at is not None:
                file.seek(at)
                file.write(b"y")
        keys.add(task_key.compute_key(task))
    assert len(keys) == 4


def test_a_graph_too_deep_for_protobuf_has_a_key(tmp_path: Path) -> None:
    """The files that it refers to are not searched, because it cannot be parsed; the conversion reports that."""

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    graph = field(2, b"g")
    for _ in range(3000):
        attribute = field(1, b"body") + b"\xa0\x01\x05" + field(6, graph)
        graph = field(2, b"g") + field(1, field(4, b"If") + field(5, attribute))
    path = tmp_path / "a.onnx"
    path.write_bytes(b"\x08\x08" + field(7, graph) + field(8, b"\x10\x17"))
    assert task_key.compute_key(Task("a", path, "onnx", tmp_path / "out", {}))


def test_the_key_is_of_all_files_of_a_checkpoint_and_of_what_the_content_is(tmp_path: Path, fixtures: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(fixtures / "tensorflow1/checkpoint", folder)
    (meta,) = folder.glob("*.meta")
    found = task_key.dependency_files(Task("a", meta, "onnx", tmp_path / "out"))
    assert {p.name for p in found} >= {meta.name, f"{meta.stem}.index", f"{meta.stem}.data-00000-of-00001"}
    model = onnx.load(tiny(tmp_path / "a.onnx"))
    onnx.save(model, tmp_path / "a.model", save_as_external_data=True, location="far.bin", size_threshold=0)
    found = task_key.dependency_files(Task("a", tmp_path / "a.model", "onnx", tmp_path / "out"))
    assert [p.name for p in found] == ["a.model", "far.bin"]


def test_the_key_is_of_external_data_wherever_it_is_named(tmp_path: Path) -> None:
    """In the attribute of a node in a branch, in a function's node, and in a sparse tensor."""

    def far(name: str) -> onnx.TensorProto:
        tensor = onnx.TensorProto(data_type=1, dims=[1], name=name, data_location=onnx.TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=f"{name}.bin")
        (tmp_path / f"{name}.bin").write_bytes(b"\0\0\0\0")
        return tensor

    constant = [onnx.helper.make_node("Constant", [], ["c"], value=far(name)) for name in ("branch", "function")]
    then = onnx.helper.make_graph(constant[:1], "then", [], [onnx.helper.make_tensor_value_info("c", 1, [1])])
    node = onnx.helper.make_node("If", ["x"], ["y"], then_branch=then, else_branch=then)
    graph = onnx.helper.make_graph([node], "g", [], [])
    graph.sparse_initializer.add(values=far("sparse"), dims=[4])
    model = onnx.helper.make_model(graph)
    opsets = [onnx.helper.make_opsetid("", 20)]
    model.functions.append(onnx.helper.make_function("mine", "F", [], ["c"], constant[1:], opsets))
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    found = task_key.dependency_files(Task("a", tmp_path / "a.onnx", "onnx", tmp_path / "out"))
    assert {p.stem for p in found} == {"a", "branch", "function", "sparse"}


@pytest.mark.parametrize(
    "place", ["../x", "/tmp/x", "a/../../x", "a\\..\\x", "", "C:/x", "s3://bucket/x", "a//b", "a\nb"]
)
@pytest.mark.parametrize("key", ["name", "output"])
def test_a_manifest_writes_nothing_outside_of_the_output_folder(tmp_path: Path, key: str, place: str) -> None:
    tiny(tmp_path / "a.onnx")
    (tmp_path / "zoo.toml").write_text(f"[[models]]\nsource = 'a.onnx'\n{key} = {json.dumps(place)}\nto = 'onnx'")
    with pytest.raises(BadInput, match="is no path inside of the output folder"):
        tasks_of(tmp_path / "zoo.toml", output=tmp_path / "out")


def test_names_and_folders_of_a_manifest_are_relative_to_the_output_folder(tmp_path: Path) -> None:
    tiny(tmp_path / "a.onnx")
    row = "[[models]]\nsource = 'a.onnx'\nname = 'deep/b'\noutput = 'first'\nto = 'onnx'"
    (tmp_path / "zoo.toml").write_text(row)
    (task,) = tasks_of(tmp_path / "zoo.toml", output=tmp_path / "out")
    assert task.output == tmp_path / "out" / "first" / "deep" / "b.onnx"


@pytest.mark.parametrize(
    "rows",
    [
        [("m", "tf", "m.onnx"), ("m.savedmodel/x", "onnx", "m.onnx")],
        [("m.caffe2/a/b", "onnx", "m.onnx"), ("m", "caffe2", "m.onnx")],
        [("m.onnx/x", "onnx", "m.onnx"), ("m", "onnx", "m.onnx")],
        [("a", "onnx", "m.onnx"), ("b", "tf", "out/a.onnx")],
        [("b", "tf", "out/a.savedmodel/saved_model.pb"), ("a", "tf", "m.onnx")],
        [("a.onnx/b", "onnx", "m.onnx"), ("c", "tf", "out/a.onnx")],
    ],
    ids=["in another", "around another", "in a file", "over a source", "around a source", "in a source"],
)
def test_no_task_writes_into_what_another_writes_or_reads(rows: list[tuple[str, str, str]], tmp_path: Path) -> None:
    text = "".join(f'[[models]]\nname = "{n}"\nto = "{to}"\nsource = "{source}"\n' for n, to, source in rows)
    (tmp_path / "jobs.toml").write_text(text)
    with pytest.raises(UsageError, match="would be written"):
        plan_tasks([str(tmp_path / "jobs.toml")], [], tmp_path / "out", {}, 60, None)


def test_what_the_next_run_sweeps_is_no_name_of_a_model(tmp_path: Path) -> None:
    row = '[[models]]\nname = ".convert-0123456789abcdef/new/m"\nto = "onnx"\nsource = "m.onnx"\n'
    (tmp_path / "jobs.toml").write_text(row)
    with pytest.raises(BadInput, match="is no path inside of the output folder"):
        plan_tasks([str(tmp_path / "jobs.toml")], [], tmp_path / "out", {}, 60, None)


# -- what is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["gone.onnx", "gone/*.onnx", "*.keras", "gone/"])
def test_what_is_not_there_fails_by_itself_and_the_rest_is_planned(lost: str, tmp_path: Path) -> None:
    """A missing path is a word of the command line, a line of standard input, or a row of a manifest; alone it is an
    error at once.
    """
    tiny(tmp_path / "a.onnx")
    planned = tasks_of(str(tmp_path / lost), tmp_path / "a.onnx", to=("onnx", "caffe2"), output=tmp_path / "out")
    assert [t.problem is None for t in planned] == [True, True, False, False]
    assert len({t.output for t in planned}) == 4
    with pytest.raises(BadInput):
        tasks_of(str(tmp_path / lost))


def test_a_row_that_names_no_model_leaves_the_other_rows(tmp_path: Path) -> None:
    tiny(tmp_path / "a.onnx")
    (tmp_path / "zoo.toml").write_text('[[models]]\nsource = "gone/*.onnx"\n[[models]]\nsource = "a.onnx"\n')
    lost, found = tasks_of(tmp_path / "zoo.toml", output=tmp_path / "out")
    assert lost.problem is not None
    assert "gone/*.onnx names no model" in lost.problem.message
    assert found.name == "a"
    assert found.problem is None


def test_what_is_not_there_is_recorded_with_its_hint(tmp_path: Path) -> None:
    """Nothing is started for it, and the journal has no record of it, because the file may exist the next time."""
    tiny(tmp_path / "net.onnx")
    planned = tasks_of(tmp_path / "nett.onnx", tmp_path / "net.onnx", output=tmp_path / "out")
    lost = [task for task in planned if task.problem is not None]
    view = show.LineView(len(lost), True, True)
    for run_all in (run.run, run.dry_run):
        (record,) = run_all(lost, tmp_path / "out", view, jobs=1, force=False)
        assert record["outcome"] == "bad input"
        assert record["reason"].startswith("there is no file or folder")
        assert record["report"]["error"]["hint"] == f"did you mean {tmp_path / 'net.onnx'}?"
    assert "nett" not in (tmp_path / "out/journal.jsonl").read_text()


@pytest.mark.parametrize(("patterns", "left"), [
    ([], ["a", "old/b", "old/c"]), (["old"], ["a"]), (["old/"], ["a"]), (["b.*"], ["a", "old/c"]),
    (["*/old/c.onnx", "a.onnx"], ["old/b"]), (["nothing"], ["a", "old/b", "old/c"]),
])  # fmt: skip
def test_models_are_excluded_by_name_folder_or_path(tmp_path: Path, patterns: list[str], left: list[str]) -> None:
    (tmp_path / "zoo" / "old").mkdir(parents=True)
    for name in ("a", "old/b", "old/c"):
        (tmp_path / "zoo" / f"{name}.onnx").write_bytes(b"x")
    passed = SkippedPaths()
    tasks = plan_tasks([str(tmp_path / "zoo")], ["tf"], tmp_path / "out", {}, 1.0, None, passed, patterns)
    assert [task.name for task in tasks] == left
    assert len(passed.excluded) == 3 - len(left)
    with pytest.raises(UsageError, match="leaves out every model"):
        plan_tasks([str(tmp_path / "zoo")], ["tf"], tmp_path / "out", {}, 1.0, None, passed, ["*.onnx"])
