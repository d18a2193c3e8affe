"""Hugging Face models, tiny and random, in folders and in memory, against transformers itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.runner import runner

import convert
from convert.errors import BadInput, UnsafeInput, Unsupported
from convert.files.sniff import sniff
from convert.options import Options, parse_input
from convert.parity.inputs import generate_feeds
from convert.report import Report
from convert.source import Source
from tests.support.pytorch_tools import run
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="Hugging Face folders need transformers")

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}


def make(name: str) -> Any:
    """A tiny network with random weights that matter."""
    torch.manual_seed(0)
    t = transformers
    makers = {
        "bert": lambda: t.BertModel(t.BertConfig(**SMALL, max_position_embeddings=64)),
        "classifier": lambda: t.BertForSequenceClassification(t.BertConfig(**SMALL, max_position_embeddings=64)),
        "gpt2": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=0)
        ),
        "llama": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=64)
        ),
        "t5": lambda: t.T5ForConditionalGeneration(
            t.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
        ),
        "vit": lambda: t.ViTModel(t.ViTConfig(**{k: v for k, v in SMALL.items() if k != "vocab_size"},
                                              image_size=32, patch_size=8)),
    }  # fmt: skip
    model = makers[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf")
    for name in ("bert", "classifier", "gpt2", "llama", "t5", "vit"):
        make(name).save_pretrained(folder / name)
    return folder


long = pytest.mark.long  # several seconds each
TEXT = ["input_ids", "attention_mask", "token_type_ids"]
CASES = [
    pytest.param("bert", TEXT, ["last_hidden_state", "pooler_output"]),
    pytest.param("classifier", TEXT, ["logits"], marks=long),
    pytest.param("gpt2", TEXT[:2], ["logits"], marks=long),
    pytest.param("t5", [*TEXT[:2], "decoder_input_ids"], ["logits", "encoder_last_hidden_state"], marks=long),
    pytest.param("vit", ["pixel_values"], ["last_hidden_state", "pooler_output"], marks=long),
]


@pytest.mark.parametrize(("name", "inputs", "outputs"), CASES)
def test_a_folder_gives_what_transformers_gives(
    name: str, inputs: list[str], outputs: list[str], folders: Path
) -> None:
    path = folders / name
    assert sniff(path) == "hf-folder"
    report = Report("convert")
    model = frontend.read(Source("hf-folder", path), Options(), report)
    assert [v.name for v in model.graph.inputs] == inputs
    assert [v.name for v in model.graph.outputs] == outputs
    assert any(type(make(name)).__name__ in note for note in report.notes)
    module = make(name)
    for feed in generate_feeds(model):
        with torch.no_grad():
            want = module(**{k: torch.from_numpy(np.array(a)) for k, a in feed.arrays.items()})
        for output, got in zip(outputs, run(model, *feed.arrays.values()), strict=True):
            np.testing.assert_allclose(got, want[output].numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["gpt2", pytest.param("llama", marks=long)])
def test_the_cache_is_passed_on_from_step_to_step(name: str, folders: Path) -> None:
    specs = (parse_input("past_key_values:float32"),)
    source = Source("hf-folder", folders / name)
    model = frontend.read(source, Options(inputs=specs), Report("convert"))
    inputs, outputs = ([str(v.name) for v in values] for values in (model.graph.inputs, model.graph.outputs))
    assert inputs[:2] == ["input_ids", "past_key_values_0_key"]
    assert outputs[:2] == ["logits", "past_key_values.0.key"]
    ids = np.array([[3, 9, 27, 31, 43, 29], [1, 2, 4, 8, 16, 32]])
    with torch.no_grad():
        want = make(name)(torch.from_numpy(ids)).logits.numpy()
    shapes = [[2 if d == "batch" else d for d in (getattr(d, "value", d) for d in v.shape)]
              for v in list(model.graph.inputs)[1:]]  # fmt: skip
    past = [np.zeros([0 if d == "past" else d for d in shape], np.float32) for shape in shapes]
    seen = 0
    for step in (3, 1, 2):
        feed = dict(zip(inputs, [ids[:, seen : seen + step], *past], strict=True))
        logits, *past = run(model, *feed.values())
        (theirs,) = runner.run(source, [feed], precision="float32", options=Options(inputs=specs))
        np.testing.assert_allclose(logits, want[:, seen : seen + step], rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(theirs["logits"], logits, rtol=1e-4, atol=2e-5)
        assert list(theirs) == outputs
        seen += step
        assert past[0].shape[2] == seen


def test_a_model_in_memory_is_read_as_a_folder_is(tmp_path: Path) -> None:
    module = make("bert")
    ids = torch.tensor([[4, 7, 9], [1, 2, 3]])
    report = convert.convert(module, "onnx", tmp_path / "m.onnx", inputs={"input_ids": ids})
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert [t.name for t in report.inputs] == ["input_ids"]
    assert [t.name for t in report.outputs] == ["last_hidden_state", "pooler_output"]
    assert "forward" not in vars(module)


def test_an_example_of_one_row_and_one_token_has_dynamic_dims() -> None:
    """torch.export builds a length of 1 in, so the example is lengthened first."""
    model = make("bert")
    model_read = frontend.read(
        Source("torch-module-object", model=model),
        Options(examples={"input_ids": torch.tensor([[3]])}),
        Report("convert"),
    )
    assert [str(d) for d in model_read.graph.inputs[0].shape or ()] == ["batch", "sequence"]
    words = torch.arange(10).reshape(2, 5)
    with torch.no_grad():
        want = model(words).last_hidden_state.numpy()
    np.testing.assert_allclose(run(model_read, words)[0], want, rtol=1e-4, atol=1e-5)


def test_inputs_may_be_named(folders: Path) -> None:
    model = frontend.read(
        Source("hf-folder", folders / "bert"),
        Options(inputs=(parse_input("input_ids:int64[2,5]"),)),
        Report("convert"),
    )
    assert [(v.name, list(v.shape or ())) for v in model.graph.inputs] == [("input_ids", [2, 5])]


def test_arrays_without_names_are_the_first_arguments_and_all() -> None:
    words = torch.arange(10).reshape(2, 5)
    model = make("bert")
    want = model(words, torch.ones_like(words)).last_hidden_state
    converted = ir.from_proto(convert.to_onnx(model, [words, torch.ones_like(words)], verify=False))
    assert [x.name for x in converted.graph.inputs] == ["input_ids", "attention_mask"]
    got = run(converted, words, torch.ones_like(words))
    np.testing.assert_allclose(got[0], want.detach().numpy(), rtol=1e-4, atol=1e-5)


@long
def test_a_folder_converts_and_verifies(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The child that runs the source needs torchvision's operators as well, if torchvision is there without them.
    (tmp_path / "sitecustomize.py").write_text(
        "from tests.support import timm_helper\n\ntimm_helper.declare_torchvision_operators()\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[4]}")
    report = convert.convert(folders / "classifier", "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def changed(source: Path, target: Path, **values: Any) -> Path:
    """A copy of a folder with entries of its config.json changed."""
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, **values}))
    return target


def test_folders_that_do_not_fit_or_bring_code_are_refused(folders: Path, tmp_path: Path) -> None:
    def read(path: Path, *specs: str) -> None:
        frontend.read(Source("hf-folder", path), Options(inputs=tuple(map(parse_input, specs))), Report("convert"))

    with pytest.raises(BadInput, match=r"lacks weights of BertForMaskedLM: cls"):
        read(changed(folders / "bert", tmp_path / "a", architectures=["BertForMaskedLM"]))
    with pytest.raises(BadInput, match="transformers could not load"):
        read(changed(folders / "bert", tmp_path / "b", hidden_size=32))
    with pytest.raises(BadInput, match="transformers could not load"):
        read(changed(folders / "bert", tmp_path / "c", architectures=["No"], model_type="nothing"))
    with pytest.raises(UnsafeInput, match=r"own.Model") as error:
        read(changed(folders / "bert", tmp_path / "d", auto_map={"AutoModel": "own.Model"}))
    assert "--trust" in error.value.hint
    with pytest.raises(Unsupported, match="two halves"):
        read(folders / "t5", "past_key_values:float32")
