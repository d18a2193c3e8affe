"""An encoder with a decoder is written as three files that generate what transformers generates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from convert.frontends.pytorch import parts

import convert
from convert.errors import Unsupported, UsageError
from convert.options import Options
from convert.source import Source
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


def test_three_files_generate_what_the_source_generates(t5: Any, tmp_path: Path) -> None:
    model, folder = t5
    out = tmp_path / "out"
    report = convert.convert(folder, "onnx", out, task=WITH_PAST, verify=False)
    assert {f.name for f in out.iterdir()} == {
        "encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx", "config.json",
        "generation_config.json",
    }  # fmt: skip
    assert "decoder_model: logits: float32[batch,sequence,50]" in map(str, report.outputs)
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
    got = greedy_with_encoder(out, given, np.zeros((2, 1), np.int64), 8, [model.generation_config.eos_token_id])
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("task", ["text2text-generation", WITH_PAST, "feature-extraction", ""])
def test_the_task_says_which_files(t5: Any, task: str) -> None:
    names = ["encoder_model", "decoder_model", "decoder_with_past_model"]
    wanted = {"text2text-generation": names[:2], WITH_PAST: names}.get(task, [])
    assert list(parts(Source("hf-folder", t5[1]), Options(extra={"task": task}))) == wanted


def test_an_output_is_a_folder_and_whole_or_not_there(t5: Any, tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(UsageError, match="written as 3 files"):
        convert.convert(t5[1], "onnx", tmp_path / "t5.onnx", task=WITH_PAST)
    calls = []

    def write(model: Any, path: Path, *rest: Any) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise Unsupported("not this one")
        path.write_bytes(b"x")

    monkeypatch.setattr("convert.backends.onnx.write", write)
    with pytest.raises(Unsupported, match="not this one"):
        convert.convert(t5[1], "onnx", tmp_path / "out", task=WITH_PAST, verify=False)
    assert not (tmp_path / "out").exists()


def test_a_part_of_what_has_none_is_refused() -> None:
    config = transformers.GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2)
    model = transformers.GPT2LMHeadModel(config)
    with pytest.raises(UsageError, match="is no encoder with a decoder"):
        convert.to_onnx(model, part="encoder", verify=False)
