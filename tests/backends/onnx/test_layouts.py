"""--runtime writes a folder as the runtime reads it: where the model lies, and what is beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from convert.backends.onnx.layouts import LAYOUTS, note_missing_files

from convert import plugin
from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.destination import destination, output_folder
from convert.request.options import Options
from convert.request.source import Source

SOURCE = Source("transformers", Path("models/llama"))


@pytest.mark.parametrize(
    ("runtime", "options", "output", "place"),
    [
        ("genai", Options(), "out", "out/model.onnx"),
        ("optimum", Options(), "out", "out/model.onnx"),
        ("optimum", Options(dtype="float16"), "out", "out/model.onnx"),
        ("tei", Options(), "out", "out/model.onnx"),
        ("transformers.js", Options(), "out", "out/onnx/model.onnx"),
        ("transformers.js", Options(dtype="float16"), "out", "out/onnx/model_fp16.onnx"),
        ("transformers.js", Options(quantize="int8"), "out", "out/onnx/model_int8.onnx"),
        ("transformers.js", Options(quantize="int4"), "out", "out/onnx/model_q4.onnx"),
        ("transformers.js", Options(), "out/other.onnx", "out/other.onnx"),
        ("transformers.js", Options(), None, "llama-onnx/onnx/model.onnx"),
        ("", Options(), "out", "out"),
        ("", Options(), None, "llama.onnx"),
    ],
)
def test_the_model_lies_where_its_runtime_looks(runtime: str, options: Options, output: str | None, place: str) -> None:
    options = replace(options, extra={"runtime": runtime})
    found, form = destination(SOURCE, "onnx", output, options)
    assert found == Path(place)
    if runtime and not (output or "").endswith(".onnx"):
        folder = output_folder(SOURCE, form, output) / (plugin.folder_of_runtime(form, options) or "")
        assert found.parent == folder


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """From one place to the folder of a runtime in it; a link that is named itself is followed."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/onnx").symlink_to(tmp_path / "mine")
    options = Options(extra={"runtime": "transformers.js"})
    with pytest.raises(UsageError, match=r"out/onnx leads to .*mine, out of the output folder"):
        destination(SOURCE, "onnx", str(tmp_path / "out"), options)
    place, _ = destination(SOURCE, "onnx", str(tmp_path / "out/onnx/model.onnx"), options)
    assert place == tmp_path / "out/onnx/model.onnx"


TEXT, PICTURE, SPEECH = ("input_ids", "attention_mask"), ("pixel_values",), ("input_features",)


@pytest.mark.parametrize(
    ("runtime", "inputs", "files"),
    [
        ("genai", TEXT, {"genai_config.json", "tokenizer.json", "tokenizer_config.json"}),
        ("optimum", TEXT, {"config.json"}),
        ("optimum", PICTURE, {"config.json"}),
        ("tei", TEXT, {"config.json", "tokenizer.json"}),
        ("transformers.js", TEXT, {"config.json", "tokenizer.json", "tokenizer_config.json"}),
        ("transformers.js", PICTURE, {"config.json", "preprocessor_config.json"}),
        ("transformers.js", SPEECH, {"config.json", "preprocessor_config.json"}),
        ("transformers.js", (*TEXT, *PICTURE),
         {"config.json", "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"}),
    ],
)  # fmt: skip
def test_missing_files_are_told(runtime: str, inputs: tuple[str, ...], files: set[str], tmp_path: Path) -> None:
    assert set(LAYOUTS[runtime].files(inputs)) == files
    report = Report("test")
    note_missing_files(runtime, inputs, dict.fromkeys(files), tmp_path, report)
    assert not report.notes
    for name in files:
        report = Report("test")
        note_missing_files(runtime, inputs, dict.fromkeys(files - {name}), tmp_path, report)
        (note,) = report.notes
        assert note.startswith(f"{runtime} also reads {name}, which")
        (tmp_path / name).touch()
        report = Report("test")
        note_missing_files(runtime, inputs, dict.fromkeys(files - {name}), tmp_path, report)
        assert not report.notes  # the user put it there
