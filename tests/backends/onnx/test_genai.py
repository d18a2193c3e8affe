"""genai_config.json describes the file that it lies beside, for onnxruntime-genai."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from convert.backends import onnx as backend

from convert.errors import BadInput, Unsupported, UsageError
from convert.graph import Graph
from convert.graph.metadata import COMPANIONS_KEY
from convert.outcome.report import Report
from convert.request.options import Options

F, I = ir.DataType.FLOAT, ir.DataType.INT64  # noqa: E741
HALVES = ("key", "value")
CONFIG = {"model_type": "llama", "hidden_size": 24, "num_attention_heads": 6, "max_position_embeddings": 99}


def decoder(
    layers: Any = ("0", "1"), size: int = 4, others: tuple[str, ...] = ("attention_mask",), weight: Any = None
) -> ir.Model:
    g = Graph()
    ids = g.input("input_ids", I, ["batch", "steps"])
    for name in others:
        g.output(g.Identity(g.input(name, I, ["batch", "steps"])), f"{name}_out")
    for place, layer in enumerate(layers):
        for half in HALVES:
            past = g.input(f"past_key_values.{layer}.{half}", F, ["batch", 3, "past", size + place * (size == 5)])
            g.output(g.Neg(past), f"present.{layer}.{half}")
    if weight is None:
        g.output(g.facts(g.Cast(ids, to=F), shape=["batch", "steps", 9]), "logits")
    else:
        g.output(g.MatMul(g.Expand(g.Unsqueeze(g.Cast(ids, to=F), [2]), [1, 1, len(weight)]), weight), "logits")
    return g.model()


def written(
    model: ir.Model, folder: Path, config: Any = None, chosen: Any = None, file: str = "model.onnx", quantize: str = ""
) -> dict[str, Any]:
    files = {"config.json": config or CONFIG, "generation_config.json": chosen or {}}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    model.meta[COMPANIONS_KEY] = {name: folder / name for name in files}
    report = Report("test")
    report.target = str(folder / file)
    (folder / file).parent.mkdir(exist_ok=True)
    options = Options(quantize=quantize, extra={"runtime": "genai"})
    backend.write(model, folder / file, "onnx", options, report)
    found: dict[str, Any] = json.loads(model.meta[COMPANIONS_KEY]["genai_config.json"])
    return found


def test_it_names_the_file_from_where_it_lies_itself(tmp_path: Path) -> None:
    assert written(decoder(), tmp_path, file="onnx/model_q4.onnx")["model"]["decoder"]["filename"] == (
        "onnx/model_q4.onnx"
    )


def test_it_names_what_the_file_has(tmp_path: Path) -> None:
    chosen = {"bos_token_id": 1, "eos_token_id": [2, 7], "temperature": 0.5, "top_k": None}
    found = written(decoder(), tmp_path, chosen=chosen)
    assert found["model"] == {
        "bos_token_id": 1, "eos_token_id": [2, 7], "pad_token_id": 2, "context_length": 99, "type": "decoder",
        "vocab_size": 9, "decoder": {
            "filename": "model.onnx", "head_size": 4, "hidden_size": 24, "num_attention_heads": 6,
            "num_hidden_layers": 2, "num_key_value_heads": 3,
            "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                       "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
            "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                        "present_value_names": "present.%d.value"},
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        },
    }  # fmt: skip
    search = found["search"]
    assert (search["max_length"], search["temperature"], search["top_k"]) == (99, 0.5, 50)
    assert not search["past_present_share_buffer"]


@pytest.mark.parametrize(("quantize", "bits"), [("int8", 8), ("int8-weights", 8), ("int4", 4)])
def test_weights_are_stored_in_blocks(quantize: str, bits: int, tmp_path: Path) -> None:
    weight = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    written(decoder(weight=weight), tmp_path, quantize=quantize)
    nodes = [n for n in onnx.load(tmp_path / "model.onnx").graph.node if n.op_type == "MatMulNBits"]
    numbers = {a.name: a.i for a in nodes[0].attribute}
    assert numbers == {"K": 4, "N": 9, "bits": bits, "block_size": 32, "accuracy_level": 4}


@pytest.mark.parametrize(
    ("config", "kind", "context"),
    [
        ({"model_type": "phi3", "max_position_embeddings": 9}, "phi3", 9),
        ({"model_type": "gpt2", "n_positions": 8}, "decoder", 8),
        ({"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 7}}, "decoder", 7),
    ],
)
def test_what_models_say_in_their_own_words(config: Any, kind: str, context: int, tmp_path: Path) -> None:
    found = written(decoder(), tmp_path, config)["model"]
    assert (found["type"], found["context_length"]) == (kind, context)
    assert "eos_token_id" not in found


@pytest.mark.parametrize(
    ("model", "config", "message"),
    [
        (decoder(others=("past_conv.0",)), None, "past_conv.0 is an input"),
        (decoder(others=("token_type_ids",)), None, "token_type_ids is an input"),
        (decoder(layers=()), None, "the cache is not a key and a value"),
        (decoder(layers=("0", "2")), None, "the cache is not a key and a value"),
        (decoder(size=5), None, "the cache is not a key and a value"),
        (decoder(), {"model_type": "llama"}, "does not say how long a text may be"),
    ],
    ids=["states", "another input", "no cache", "a layer is missing", "other sizes", "no length"],
)
def test_what_genai_does_not_run_is_refused(model: ir.Model, config: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=message):
        written(model, tmp_path, config)
    assert not (tmp_path / "model.onnx").exists()


def test_a_model_without_a_folder_is_refused(tmp_path: Path) -> None:
    options = Options(extra={"runtime": "genai"})
    with pytest.raises(UsageError, match=r"needs the config\.json"):
        backend.write(decoder(), tmp_path / "model.onnx", "onnx", options, Report("test"))


@pytest.mark.parametrize(
    ("config", "chosen"),
    [
        ({}, {"eos_token_id": []}),
        ({}, {"eos_token_id": ["2"]}),
        ({}, {"pad_token_id": -1}),
        ({}, {"bos_token_id": 1 << 62}),
        ({}, {"temperature": float("nan")}),
        ({}, {"top_k": {"a": [1]}}),
        ({}, {"length_penalty": "2"}),
        ({"max_position_embeddings": True}, {}),
        ({"max_position_embeddings": 1 << 62}, {}),
        ({"max_position_embeddings": "99"}, {}),
        ({"hidden_size": [24]}, {}),
        ({"num_attention_heads": 1e400}, {}),
    ],
)
def test_values_of_other_kinds_in_a_configuration_are_refused(tmp_path: Path, config: Any, chosen: Any) -> None:
    key = next(iter(config or chosen)).removeprefix("num_attention_")
    with pytest.raises(BadInput, match=f"{key} in the model's configuration is no"):
        written(decoder(), tmp_path, config=CONFIG | config, chosen=chosen)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\x00"])
def test_a_configuration_for_generation_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    files = {"config.json": json.dumps(CONFIG), "generation_config.json": text}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    model = decoder()
    model.meta[COMPANIONS_KEY] = {name: tmp_path / name for name in files}
    with pytest.raises(BadInput, match=r"generation_config.json is no JSON"):
        backend.write(model, tmp_path / "m.onnx", "onnx", Options(extra={"runtime": "genai"}), Report("test"))
