"""The command line: exit codes, one-paragraph errors, stdout for results, JSON for machines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from convert.cli import cli
from convert.cli.read_options import ReadOptions
from convert.request.given_inputs import make_options
from tests.support.hostile import OLD_ONNX

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "fixtures"


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args])


def test_help_shows_both_forms() -> None:
    done = invoke("--help")
    assert done.exit_code == 0
    for word in (
        "MODEL [OUTPUT|FORMAT]",
        "--to FORMAT",
        "--opset",
        "--no-verify",
        "verify",
        "inspect",
        "formats",
        "ops",
    ):
        assert word in done.output


def test_formats_lists_readers_and_writers() -> None:
    told = json.loads(invoke("formats", "--json").stdout)
    assert {"onnx", "tf", "tf-frozen", "caffe2"} <= set(told["write"])
    assert {"torch-module", "torchscript", "torch-export", "onnx", "savedmodel", "keras", "frozen-graph"} <= set(
        told["read"]
    )
    assert "onnx" in invoke("formats").stdout


@pytest.mark.not_core
@pytest.mark.parametrize("side", [("--to", "tf"), ("--to", "caffe2"), ("--from", "pytorch"), ("--from", "tensorflow")])
def test_ops_lists_operators(side: tuple[str, str]) -> None:
    told = json.loads(invoke("ops", *side, "--json").stdout)
    assert len(told["operators"]) > 30


@pytest.mark.not_core
def test_a_list_of_operators_is_bounded(tmp_path: Path) -> None:
    """/dev/zero filled all memory; a name of 400,000 letters made every other line as long."""
    done = invoke("ops", "--to", "tflite", "--of", "/dev/zero")
    assert (done.exit_code, "too large for a list of operators" in done.stderr) == (5, True)
    (tmp_path / "names").write_text("\n".join(["x" * 4000, *(f"a{i}" for i in range(100))]))
    done = invoke("ops", "--to", "tflite", "--of", tmp_path / "names")
    assert done.exit_code == 0
    assert len(done.stdout) < 20_000


@pytest.mark.not_core
def test_a_model_in_place_of_a_list_of_operators_is_refused(tmp_path: Path) -> None:
    """Each line of a binary file was listed as an operator without a rule."""
    (tmp_path / "m.onnx").write_bytes(b"\x08\x00Relu\n\x00Conv")
    done = invoke("ops", "--to", "tflite", "--of", tmp_path / "m.onnx")
    assert (done.exit_code, "convert batch" in done.stderr) == (2, True)


@pytest.mark.not_core
def test_operators_that_pytorch_decomposes_are_no_gaps(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("aten::add.Tensor\naten::hardswish_\naten::hinge_embedding_loss\naten::nothing\n")
    found = json.loads(invoke("ops", "--from", "pytorch", "--of", tmp_path / "names", "--json").stdout)
    assert found["operators"] == ["aten::add.Tensor", "aten::hardswish_", "aten::hinge_embedding_loss"]
    assert found["written_out"] == ["aten::hinge_embedding_loss"]
    assert list(found["gaps"]) == ["aten::nothing"]


@pytest.mark.not_core
def test_ops_lists_what_a_format_lacks() -> None:
    told, wider = (json.loads(invoke("ops", "--to", form, "--json").stdout) for form in ("tflite", "tf"))
    assert "bits" in told["gaps"]["BitShift"]
    assert told["limits"]["Conv"]
    assert set(wider["operators"]) == set(told["operators"]) | (set(told["gaps"]) - set(wider["gaps"]))


@pytest.mark.not_core
def test_ops_tells_native_from_written_out() -> None:
    """An operator is native, written out in native ones, or a declared gap with the reason."""
    told = json.loads(invoke("ops", "--to", "keras", "--json").stdout)
    written_out = set(told["written_out"])
    assert {"Col2Im", "DFT", "GridSample", "RotaryEmbedding", "STFT"} <= written_out < set(told["operators"])
    assert not written_out & {"Conv", "Resize", *told["gaps"]}
    lite = json.loads(invoke("ops", "--to", "tflite", "--json").stdout)
    assert {"BitwiseAnd", "DFT"} <= set(lite["written_out"])
    assert json.loads(invoke("ops", "--from", "onnx", "--json").stdout)["written_out"] == []
    lines = invoke("ops", "--to", "keras").stdout.splitlines()
    native = len(told["operators"]) - len(written_out)
    assert f"({native} native, {len(written_out)} written out)" in lines[0]
    assert lines.index("written out in operators that it has") == native + 1
    assert "keras: GridSample (written out)" in invoke("ops", "grid_sample").stdout


def test_inspect_tells_the_contract() -> None:
    told = json.loads(invoke("inspect", FIXTURES / "mnist_cnn.onnx", "--json").stdout)
    assert told["kind"] == "onnx"
    assert told["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 28, 28]}]
    assert told["operators"]["Conv"] == 2
    assert told["parameters"] == 38_298
    text = invoke("inspect", FIXTURES / "mnist_cnn.onnx").stdout
    assert re.search(r"^  in   image +float32\[batch,1,28,28\]$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["nothing.pt", "--to", "tf"], 5, "nothing.pt"),
        ([FIXTURES / "mnist_cnn.onnx", "--to", "gugf"], 2, "no format 'gugf'"),
        ([FIXTURES / "mnist_cnn.onnx"], 2, "no output format is given"),
        ([FIXTURES / "mnist_cnn.onnx", "-o", "x.unknown"], 2, "does not say which format to write"),
        ([FIXTURES / "mnist_cnn.onnx", "--to", "onnx", "--opset", "5"], 2, "opset"),
        ([FIXTURES / "mnist_cnn.onnx", "--to", "onnx", "--input", "x:float99[1]"], 2, "not a dtype"),
        (["ops"], 2, "--to FORMAT"),
        (["verify", "nothing.pt", "nothing.onnx"], 5, "nothing.pt"),
    ],
)
def test_errors_are_one_paragraph_with_an_exit_code(args: list[str | Path], code: int, words: str) -> None:
    done = invoke(*args)
    assert done.exit_code == code, done.output
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_without_input_options_the_model_tells_its_inputs() -> None:
    given = ReadOptions((), "", (), (), (), "", False, False, ()).options()
    assert not make_options(given["inputs"], {}).no_inputs
    assert make_options([], {}).no_inputs


@pytest.mark.parametrize("words", [["verify"], ["inspect", "a.onnx", "--nope"], ["a.onnx", "--opset", "99"]], ids=str)
def test_json_carries_wrong_usage_too(words: list[str]) -> None:
    done = invoke(*words, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["exit_code"], told["error"]["type"]) == (2, 2, "UsageError")
    assert told["command"] == (words[0] if words[0] != "a.onnx" else "convert")


def test_options_of_other_sources_are_noted(tmp_path: Path) -> None:
    for words in ([str(tmp_path / "out.onnx"), "--dry-run"], ["inspect"]):
        verb = [words.pop()] if words == ["inspect"] else []
        done = invoke(*verb, FIXTURES / "mnist_cnn.onnx", *words, "--signature", "y", "--trace", "--json")
        notes = json.loads(done.stdout)["notes"]
        assert [n["text"] for n in notes if n["code"] == "unread-option"] == [
            f"--{name} has no effect on a source of kind onnx" for name in ("signature", "trace")
        ]


@pytest.mark.not_core  # the operators of every package are listed
@pytest.mark.parametrize(
    "words",
    [
        ("batch", "none.toml"), ("batch", "zoo.toml", "--jobs", "x"), ("batch", "--to", "nothing", "."),
        ("ops", "--to", "nothing"), ("ops", "no such operator"), ("ops",), ("formats", "--wide"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_error_of_a_verb_without_a_report_is_json_too(words: tuple[str, ...], tmp_path: Path) -> None:
    done = invoke(*words, "--json")
    told = json.loads(done.stdout)
    assert (told["command"], told["ok"], told["exit_code"]) == (words[0], False, done.exit_code)
    assert told["error"]["message"] in done.stderr
    assert done.exit_code in (2, 5)


def test_json_carries_errors_too() -> None:
    done = invoke("nothing.pt", "--to", "tf", "--json")
    told = json.loads(done.stdout)
    assert told["ok"] is False
    assert told["exit_code"] == done.exit_code == 5
    assert (told["error"]["type"], told["error"]["code"]) == ("BadInput", "bad-input")


def test_the_page_that_tells_of_an_error_is_named_behind_it(tmp_path: Path) -> None:
    page, words = tmp_path / "out.html", [FIXTURES / "mnist_cnn.onnx", "-o", tmp_path / "m.onnx"]
    (tmp_path / "m.onnx").write_bytes(OLD_ONNX)
    refused = invoke(*words, "--report", page)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == f"report: {page}"
    assert page.exists()
    done = invoke(*words, "--report", page, "--force", "--no-verify")
    assert done.stdout.splitlines()[-1] == f"report: {page}"


def test_an_existing_output_needs_force_or_skip(tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    out.write_bytes(OLD_ONNX)
    source = FIXTURES / "mnist_cnn.onnx"
    refused = invoke(source, "-o", out)
    assert refused.exit_code == 2
    assert "exists already" in refused.stderr
    assert invoke(source, "-o", out, "--skip-existing").exit_code == 0
    assert out.read_bytes() == OLD_ONNX
    assert invoke(source, "-o", out, "--force", "--no-verify").exit_code == 0
    assert out.read_bytes() != OLD_ONNX


def test_an_option_that_changes_nothing_is_noted(tmp_path: Path) -> None:
    words = ("--opset", "13", "--caffe2-layout", "metanet", "--dry-run")
    for to, unread in (("caffe2", "--opset"), ("onnx", "--caffe2-layout")):
        done = invoke(FIXTURES / "mnist_cnn.onnx", "--to", to, *words)
        assert done.exit_code == 0, done.stderr
        noted = [line for line in done.stderr.splitlines() if "has no effect" in line]
        assert noted == [f"note: {unread} has no effect from onnx to {to}"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = invoke(FIXTURES / "mnist_cnn.onnx", "-o", tmp_path / "m.onnx", "--dry-run")
    assert done.exit_code == 0
    assert "can be converted" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.not_core
def test_layout_of_stdout_and_stderr(tmp_path: Path) -> None:
    done = invoke(FIXTURES / "mnist_cnn.onnx", "-o", tmp_path / "m.onnx", "-v")
    assert done.exit_code == 0, done.output
    assert "PASS" in done.stdout
    told = [line.partition("] ")[2] for line in done.stderr.splitlines() if line.startswith("[")]
    assert told[0].startswith("reading the model (")
    assert "running the source" in " ".join(told)
    assert " s] " not in done.stdout
    assert "\x1b[" not in done.stdout
    quiet = invoke(FIXTURES / "mnist_cnn.onnx", "-o", tmp_path / "q.onnx", "-q")
    assert quiet.stderr == ""


@pytest.mark.slow
@pytest.mark.not_core
def test_a_pipe_gets_neither_progress_nor_notes_on_special_values(tmp_path: Path) -> None:
    """The only line on stderr is the assumed input; `-vv` adds differences on NaN, and the progress."""
    plain = invoke(FIXTURES / "mnist_cnn.pt", "-o", tmp_path / "m.onnx")
    assert plain.exit_code == 0, plain.output
    (assumed,) = plain.stderr.splitlines()
    assert "float32[batch,1,28,28]" in assumed
    assert "special values" not in plain.stdout
    verbose = invoke(FIXTURES / "mnist_cnn.pt", "-o", tmp_path / "v.onnx", "-vv")
    lines = verbose.stderr.splitlines()
    assert any(line.startswith("note: special values: MaxPool") for line in lines)
    assert any("running the source" in line for line in lines)
    as_json = invoke(FIXTURES / "mnist_cnn.pt", "-o", tmp_path / "j.onnx", "--json")
    assert any(note["code"] == "special-values" for note in json.loads(as_json.stdout)["notes"])


@pytest.mark.slow
@pytest.mark.not_core
def test_custom_rules_from_a_file(tmp_path: Path) -> None:
    """The lines of the README, on an ONNX model with an operator of the user's own, convert and verify it.

    The process that runs the source must load the rules as well, because no runtime knows the operator.
    """
    import onnx
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    node = helper.make_node("Cube", ["x"], ["y"], domain="mine")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=10)
    onnx.save(model, tmp_path / "cube.onnx")
    refused = invoke(tmp_path / "cube.onnx", "--to", "tf", "-o", tmp_path / "a", "--no-verify")
    assert refused.exit_code == 4
    assert "mine::Cube" in refused.stderr
    lines = (ROOT / "README.md").read_text().split("```python\n# my_rules.py\n")[1].split("```")[0]
    (tmp_path / "my_rules.py").write_text(lines)
    done = subprocess.run(
        [sys.executable, "-m", "convert", "cube.onnx", "--to", "tf", "--rules", "my_rules.py", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)["verdict"]
    assert (verdict["status"], verdict["reference"]) == ("PASS", "the source in float64")


def test_python_dash_m_works_from_the_root_of_the_clone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "convert", "formats"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "caffe2" in done.stdout


def test_interrupted_gives_130(monkeypatch: pytest.MonkeyPatch) -> None:
    import convert.api

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(convert.api, "convert", interrupt)
    done = invoke(FIXTURES / "mnist_cnn.onnx", "--to", "onnx")
    assert done.exit_code == 130


@pytest.mark.parametrize(
    "start", ["runpy.run_module('convert', run_name='__main__')", "from convert.cli import main; main()"]
)
def test_interrupted_before_signals_are_handled_is_said_alike(start: str) -> None:
    """This holds both for `python -m convert` and for the console scripts."""
    program = (
        "import runpy, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'convert.cli.signals': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"{start}"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_defect_of_ours_is_one_paragraph_and_a_traceback_only_with_vv(monkeypatch: pytest.MonkeyPatch) -> None:
    import convert.api

    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(convert.api, "convert", broken)
    done = invoke(FIXTURES / "mnist_cnn.onnx", "--to", "onnx")
    assert done.exit_code == 1
    assert "ZeroDivisionError: planted" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in invoke(FIXTURES / "mnist_cnn.onnx", "--to", "onnx", "-vv").stderr


def test_formats_say_what_confines_models_that_are_run() -> None:
    from convert.processes.sandbox import available_measures

    told = json.loads(invoke("formats", "-v", "--json").stdout)["confined"]
    assert told == list(available_measures())
    assert "models that are run are confined" in invoke("formats", "-v").stdout
