"""Hugging Face configurations of networks that are larger than the folder's weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.files import loader
from convert.frontends.pytorch.files.hugging_face_counts import bounded_by_weights, check_counts

from convert import limits
from convert.errors import BadInput, ResourceLimit
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
         "max_position_embeddings": 64}  # fmt: skip


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 1 << 30},
        {"text_config": {"n_layer": 1e9}},
        {"depths": [2, 1 << 40]},
        {"num_labels": math.inf},
        {"num_local_experts": math.nan},
    ],
)
def test_counts_beyond_any_model_are_refused(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match=r"more than 1,000,000 are not taken"):
        check_counts(tmp_path)


def test_counts_of_models_are_taken(tmp_path: Path) -> None:
    taken = {"num_hidden_layers": 126, "num_labels": 670_091, "depths": [3, 27], "layers": None, "vocab_size": 1 << 30}
    (tmp_path / "config.json").write_text(json.dumps(taken))
    check_counts(tmp_path)


@pytest.mark.parametrize("quantized", [False, True])
def test_a_model_has_no_more_elements_than_its_weights_allow(
    quantized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FOLDER_SPARE_ELEMENTS", 100)
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {}} if quantized else {}))
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    most = (16 if quantized else 4) * 1000 + 100
    with bounded_by_weights(tmp_path), torch.device("meta"):
        torch.nn.Linear(most, 1, bias=False)
    with pytest.raises(ResourceLimit, match=f"asks for more than {most:,} elements"), bounded_by_weights(tmp_path):
        torch.nn.Linear(most, 1, device="meta")
    torch.nn.Linear(most, 1, device="meta")  # weights outside the folder are not counted


def test_a_model_has_no_more_parts_than_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FOLDER_MODEL_PARTS", 20)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ResourceLimit, match="more than 20 layers and weights"), bounded_by_weights(tmp_path):
        torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(8))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"vocab_size": 1 << 28}, {"num_hidden_layers": 10**4, "hidden_size": 10**6, "num_attention_heads": 1}]
)
def test_a_folder_whose_configuration_asks_for_more_takes_no_memory(change: dict[str, Any], tmp_path: Path) -> None:
    import transformers

    transformers.BertModel(transformers.BertConfig(**SMALL)).save_pretrained(tmp_path)
    source = Source("hf-folder", tmp_path)
    assert loader.load(source, Options(), Report("")).training is False
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ResourceLimit, match=r"config\.json asks for more than"):
        loader.load(source, Options(), Report(""))
