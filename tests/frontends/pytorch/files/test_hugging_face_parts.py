"""An encoder with a decoder is written as three files that generate what transformers generates."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch import parts
from convert.frontends.pytorch.files.hugging_face_parts import with_part_forward
from onnx import numpy_helper

import convert
from convert import plugin
from convert.errors import ParityError, ResourceLimit, Unsupported, UsageError
from convert.files.exchange import rename_over
from convert.files.part_names import MERGED
from convert.outcome.report import Tensor
from convert.outcome.verdict import GenerationVerdict, OutputVerdict, Verdict
from convert.parity.generation.encoders import STEMS, verify_encoder_generation
from convert.parity.method import VerifyMethod
from convert.processes.run_here import _generated
from convert.request.options import Options
from convert.request.source import Source
from tests.support.greedy import greedy_with_encoder
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers = pytest.importorskip("transformers")
WITH_PAST = "text2text-generation-with-past"


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.manual_seed(0)
    size = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(**size, decoder_start_token_id=0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    folder = tmp_path_factory.mktemp("folders") / "t5"
    model.save_pretrained(folder)
    return model, folder


@pytest.fixture(scope="module")
def captures() -> dict[Any, Any]:
    """The graph of each part that a test has captured."""
    return {}


@pytest.fixture
def captured_once(captures: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture each part only once: the tests that use this are about files, not graphs."""
    read = frontend.read

    def read_once(source: Source, options: Options, report: convert.Report) -> Any:
        key = str(source.path), repr(sorted(options.extra.items()))
        if key not in captures:
            captures[key] = read(source, options, report)
        model = captures[key].clone()
        model.meta.update(captures[key].meta)  # the companion files
        return model

    monkeypatch.setattr(frontend, "read", read_once)


@pytest.mark.slow
def test_the_files_generate_what_the_source_generates(t5: Any, tmp_path: Path) -> None:
    model, folder = t5
    out = tmp_path / "out"
    report = convert.convert(folder, "onnx", out, task=WITH_PAST, verify=False)
    assert {f.name for f in out.iterdir()} == {
        "encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx", "decoder_model_merged.onnx",
        "config.json", "generation_config.json",
    }  # fmt: skip
    assert "decoder_model: logits: float32[batch_size,decoder_sequence_length,50]" in map(str, report.outputs)
    step = onnx.load(out / "decoder_with_past_model.onnx").graph
    cache = [f"past_key_values.0.{half}.{part}" for half in ("decoder", "encoder") for part in ("key", "value")]
    assert [v.name for v in step.input] == ["encoder_attention_mask", "input_ids", *cache]
    assert [v.name for v in step.output] == ["logits", "present.0.decoder.key", "present.0.decoder.value"]
    words = np.array([[5, 9, 7, 3], [8, 4, 0, 0]])
    given = {"input_ids": words, "attention_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]])}
    with torch.no_grad():
        want = model.generate(
            **{n: torch.from_numpy(a) for n, a in given.items()}, max_new_tokens=8, min_new_tokens=8, do_sample=False
        )
    end = [model.generation_config.eos_token_id]
    for merged in (False, True):
        got = greedy_with_encoder(out, given, np.zeros((2, 1), np.int64), 8, end, merged)
        np.testing.assert_array_equal(got, want.numpy())
    # The verdict's own generation agrees, and reports that a decoder with other weights generates something else.
    parts = {stem: convert.Report("convert") for stem in STEMS}
    for stem, part in parts.items():
        file = onnx.load(out / f"{stem}.onnx").graph
        part.inputs, part.outputs = ([tensor_of(v) for v in ends] for ends in (file.input, file.output))
        part.verdict = Verdict("PASS", outputs=[OutputVerdict("logits", floor=1e-7)])
    assert generated_by_files(folder, out, parts).status == "PASS"
    for stem in ("decoder_model_merged", "decoder_with_past_model"):
        whole = (out / f"{stem}.onnx").read_bytes()
        wrong = onnx.load(out / f"{stem}.onnx")
        attributes = [attribute for node in wrong.graph.node for attribute in node.attribute]
        branch = next((a.g for a in attributes if a.name == "then_branch"), wrong.graph)
        weight = next(t for t in branch.initializer if t.name.endswith("final_layer_norm.weight"))
        weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), weight.name))
        onnx.save(wrong, out / f"{stem}.onnx")
        found = generated_by_files(folder, out, parts)
        assert (found.status, found.same) == ("FAIL", 1)
        assert found.reason.startswith("decoder_model_merged: token 2 of 32") == (stem == "decoder_model_merged")
        (out / f"{stem}.onnx").write_bytes(whole)


def generated_by_files(folder: Path, out: Path, parts: Any) -> GenerationVerdict:
    files = {stem: out / f"{stem}.onnx" for stem in (*STEMS, MERGED)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("convert.parity.generation.decoders.execute", run_here)
        found = verify_encoder_generation(Source("hf-folder", folder), files, "onnx", parts, Options(), VerifyMethod())
    assert isinstance(found, GenerationVerdict)
    return found


def run_here(source: Source, feeds: Any, precisions: Any, options: Options, *rest: Any) -> Any:
    """Run in this process, which knows torchvision's operators, instead of a child."""
    found = _generated(plugin.runner_for(source.kind), source, feeds[0], options)
    return SimpleNamespace(results=lambda: {precisions[0]: [found]})


def tensor_of(value: onnx.ValueInfoProto) -> Tensor:
    kind = value.type.tensor_type
    dims = tuple(d.dim_value or d.dim_param or None for d in kind.shape.dim)
    return Tensor(value.name, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name, dims)


@pytest.mark.slow
@pytest.mark.usefixtures("captured_once")
@pytest.mark.parametrize("status", ["PASS", "INCONCLUSIVE", "FAIL"])
def test_what_the_files_generate_together_is_in_the_verdict(
    t5: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    found = GenerationVerdict(status, 32, 2, 32)

    def judge_part(request: Any, written: Path, graph: Any, report: convert.Report) -> None:
        report.verdict = Verdict("PASS", outputs=[OutputVerdict("logits")])

    def verify_generation(source: Any, files: dict[str, Path], *rest: Any) -> GenerationVerdict:
        assert [file.read_bytes() for file in files.values()] == [f"{stem}.onnx".encode() for stem in (*STEMS, MERGED)]
        return found

    monkeypatch.setattr("convert.backends.onnx.write", write_parts())
    monkeypatch.setattr("convert.backends.onnx.join", join_parts)
    monkeypatch.setattr("convert.api._judge", judge_part)
    monkeypatch.setattr("convert.parity.generation.encoders.verify_encoder_generation", verify_generation)
    if status == "FAIL":
        with pytest.raises(ParityError, match="would not generate the tokens of"):
            convert.convert(t5[1], "onnx", tmp_path / "out")
        assert not (tmp_path / "out").exists()
    else:
        assert convert.convert(t5[1], "onnx", tmp_path / "out").verdict.generation is found  # type: ignore[union-attr]
        one = convert.convert(t5[1], "onnx", tmp_path / "t5.onnx", verify=False)
        assert f"written as one graph, because the output is one file; a folder gets {', '.join(STEMS)}" in one.notes


@pytest.mark.parametrize("task", ["text2text-generation", WITH_PAST, "feature-extraction", ""])
def test_the_task_says_which_files(t5: Any, task: str) -> None:
    wanted = {"text2text-generation": STEMS[:2], WITH_PAST: STEMS, "": STEMS}.get(task, ())
    source, options = Source("hf-folder", t5[1]), Options(extra={"task": task})
    assert list(parts(source, options)) == [*wanted]
    assert list(parts(source, options, single=True)) == ([*wanted] if task else [])


@pytest.mark.slow
@pytest.mark.usefixtures("captured_once")
def test_an_output_is_a_folder_and_whole_or_not_there(t5: Any, tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(UsageError, match="written as 3 files"):
        convert.convert(t5[1], "onnx", tmp_path / "t5.onnx", task=WITH_PAST)
    monkeypatch.setattr("convert.backends.onnx.write", write_parts(2))
    with pytest.raises(ResourceLimit, match="disk is full"):
        convert.convert(t5[1], "onnx", tmp_path / "out", task=WITH_PAST, verify=False)
    assert not (tmp_path / "out").exists()


def write_parts(fails_at: int = 0) -> Any:
    """Return a backend that writes some bytes, and finds the disk full at the part with this number."""
    calls = []

    def write(model: Any, path: Path, *rest: Any) -> None:
        calls.append(path)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_bytes(path.name.encode())
        path.with_name(f"{path.name}.data").write_bytes(b"new weights")

    return write


def test_a_link_out_of_the_folder_is_refused(t5: Any, tmp_path: Path) -> None:
    for name in ("mine", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out/onnx").symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match=r"out/onnx leads to .*mine, out of the output folder"):
        convert.convert(t5[1], "onnx", tmp_path / "out", runtime="transformers.js", verify=False)
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("captured_once")
def test_decoders_that_cannot_be_one_file_are_written_apart(t5: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def join(files: Any, path: Path, report: Any) -> None:
        raise Unsupported("the decoders differ")

    monkeypatch.setattr("convert.backends.onnx.write", write_parts())
    monkeypatch.setattr("convert.backends.onnx.join", join)
    report = convert.convert(t5[1], "onnx", tmp_path / "out", task=WITH_PAST, verify=False)
    assert "decoder_model_merged.onnx was not written: the decoders differ" in report.notes
    assert {file.stem for file in (tmp_path / "out").glob("*.onnx")} == set(STEMS)


def join_parts(files: Sequence[Path], path: Path, report: convert.Report) -> None:
    assert [file.read_bytes() for file in files] == [f"{stem}.onnx".encode() for stem in STEMS[1:]]
    path.write_bytes(path.name.encode())


@pytest.mark.slow
@pytest.mark.usefixtures("captured_once")
@pytest.mark.parametrize("there", [["encoder_model"], ["decoder_with_past_model"]])
def test_parts_replace_those_that_are_there_all_or_none(
    t5: Any, tmp_path: Path, monkeypatch: Any, there: list[str]
) -> None:
    for stem in there:
        name = f"{stem}.onnx.data".encode()  # a model whose graph and weights have the same name
        (tmp_path / f"{stem}.onnx").write_bytes(bytes([8, 8, 0x3A, len(name) + 2, 0x12, len(name)]) + name)
        (tmp_path / f"{stem}.onnx.data").write_bytes(b"old weights")
    (tmp_path / "config.json").write_bytes(b"{}")
    before = contents(tmp_path)
    given = {"task": WITH_PAST, "verify": False}
    with pytest.raises(UsageError, match="exists already"):
        convert.convert(t5[1], "onnx", tmp_path, **given)
    for fails_at in (2, 3):
        monkeypatch.setattr("convert.backends.onnx.write", write_parts(fails_at))
        with pytest.raises(ResourceLimit, match=f"{re.escape(str(tmp_path))}/[a-z_]+.onnx could not be written"):
            convert.convert(t5[1], "onnx", tmp_path, force=True, **given)
        assert contents(tmp_path) == before
    monkeypatch.setattr("convert.backends.onnx.write", write_parts())
    monkeypatch.setattr("convert.backends.onnx.join", join_parts)
    with monkeypatch.context() as patched:
        patched.setattr("convert.files.output.rename_over", fail_at(3))
        with pytest.raises(ResourceLimit):
            convert.convert(t5[1], "onnx", tmp_path, force=True, **given)
        assert contents(tmp_path) == before
    report = convert.convert(t5[1], "onnx", tmp_path, force=True, **given)
    assert contents(tmp_path) == {
        **{f"{stem}.onnx": f"{stem}.onnx".encode() for stem in STEMS},
        **{f"{stem}.onnx.data": b"new weights" for stem in STEMS},
        "decoder_model_merged.onnx": b"decoder_model_merged.onnx",
        "config.json": b"{}",
        "generation_config.json": (t5[1] / "generation_config.json").read_bytes(),
    }
    assert "not copied, because the folder has other files of these names: config.json" in report.notes


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def fail_at(number: int) -> Any:
    """Return a stand-in for the rename function that fails with a full disk at this call."""
    calls = []

    def rename(new: Path, place: Path, aside: Path) -> None:
        calls.append(new)
        if len(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename_over(new, place, aside)

    return rename


def test_a_part_of_what_has_none_is_refused() -> None:
    config = transformers.GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    model = transformers.GPT2LMHeadModel(config)
    with pytest.raises(UsageError, match="is no encoder with a decoder"):
        convert.to_onnx(model, part="encoder", verify=False)


@pytest.mark.slow
def test_sizes_of_a_forward_that_looks_at_numbers() -> None:
    """LED's encoder asks whether tokens are masked, which a run on tensors without content cannot tell."""
    size = {"vocab_size": 50, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "attention_window": 4}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    model = transformers.LEDForConditionalGeneration(transformers.LEDConfig(**size, **heads)).eval()
    part = with_part_forward(model, "decoder-with-past", Options())
    with torch.no_grad():
        ids = torch.ones(2, 4, dtype=torch.int64)
        cache = model(input_ids=ids, decoder_input_ids=ids, use_cache=True).past_key_values
    keys = {half: getattr(cache, f"{half}_attention_cache").layers[0].keys for half in ("self", "cross")}
    found = {s.name: [d.size for d in s.shape] for s in part.forward.specs}
    for half, name in (("self", "decoder"), ("cross", "encoder")):
        assert found[f"past_key_values_0_{name}_key"] == [None, keys[half].shape[1], None, keys[half].shape[3]]
