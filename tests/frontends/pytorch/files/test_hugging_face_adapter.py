"""LoRA adapters, in the files that peft writes, are merged into the weights of the model that they belong to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.files.hugging_face_adapter import merge_adapter
from convert.frontends.pytorch.files.loader import load
from safetensors.torch import save_file
from torch import nn

from convert.errors import BadInput, Unsupported, UsageError
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()


class Conv1D(nn.Module):
    """A layer whose weight is [inputs, outputs], as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 6), nn.Linear(4, 6)])
        self.words = nn.Embedding(9, 4)
        self.mix = Conv1D()
        self.head = nn.Linear(4, 3)
        self.tied = nn.Linear(4, 9)
        self.table = nn.Embedding(9, 4)
        self.tied.weight = self.table.weight


CONFIG = {"peft_type": "LORA", "lora_alpha": 6, "r": 2, "bias": "none", "target_modules": ["layers"]}
LINEAR, WORDS = ((2, 4), (6, 2)), ((2, 9), (4, 2))


def adapter(path: Path, weights: dict[str, Any], **config: Any) -> dict[str, torch.Tensor]:
    """Write an adapter; shapes become random tensors, which are returned by name."""
    torch.manual_seed(1)
    tensors = {f"base_model.model.{name}": torch.randn(shape) for name, shape in weights.items()}
    save_file(tensors, path / "adapter_model.safetensors")
    (path / "adapter_config.json").write_text(json.dumps({**CONFIG, **config}))
    return {name.removeprefix("base_model.model."): tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    ("name", "shapes", "config", "scale"),
    [
        ("layers.0", LINEAR, {}, 3.0),
        ("layers.1", LINEAR, {"use_rslora": True}, 6 / 2**0.5),
        ("layers.1", LINEAR, {"alpha_pattern": {"layers.1": 5}, "rank_pattern": {"layers.1": 2}}, 2.5),
        ("layers.0", LINEAR, {"alpha_pattern": {"layers.1": 5}}, 3.0),
        ("words", WORDS, {}, 3.0),
        ("mix", LINEAR, {"fan_in_fan_out": True}, 3.0),
    ],
)
def test_a_weight_becomes_the_sum_with_the_product(
    name: str, shapes: Any, config: dict[str, Any], scale: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Model()
    parts = ("lora_embedding_A", "lora_embedding_B") if name == "words" else ("lora_A.weight", "lora_B.weight")
    given = adapter(tmp_path, {f"{name}.{part}": shape for part, shape in zip(parts, shapes, strict=True)}, **config)
    before = {n: p.detach().numpy().copy() for n, p in model.named_parameters()}
    merge_adapter(model, tmp_path, report := Report("test"))
    a, b = (given[f"{name}.{part}"].numpy() for part in parts)
    added = scale * (b @ a)
    before[f"{name}.weight"] += added if name.startswith("layers") else added.T
    for each, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), before[each], rtol=1e-5, atol=1e-6)
    assert [note.code for note in report.notes] == ["merged-adapter"]


@pytest.mark.parametrize("saved", ["head", "ead", "layers"])
def test_modules_saved_whole_replace_those_of_the_model(saved: str, tmp_path: Path) -> None:
    model = Model()
    sizes = {"layers.1.weight": (6, 4)} if saved == "layers" else {"head.weight": (3, 4), "head.bias": (3,)}
    given = adapter(tmp_path, sizes, modules_to_save=[saved])  # peft compares the ends of names
    merge_adapter(model, tmp_path, Report("test"))
    for name, tensor in given.items():
        assert torch.equal(model.get_parameter(name), tensor)


def test_the_layer_below_an_embeddings_adapter_is_saved_too(tmp_path: Path) -> None:
    model = Model()
    sizes = {"words.lora_embedding_A": (2, 9), "words.lora_embedding_B": (4, 2), "words.base_layer.weight": (9, 4)}
    given = adapter(tmp_path, sizes)
    merge_adapter(model, tmp_path, Report("test"))
    a, b, base = (given[name].numpy() for name in sizes)
    np.testing.assert_allclose(model.words.weight.detach().numpy(), base + 3 * (b @ a).T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("weights", "config", "error", "message"),
    [
        ({}, {"peft_type": "IA3"}, Unsupported, "asks for peft_type IA3"),
        ({}, {"use_dora": True}, Unsupported, "asks for use_dora True"),
        ({}, {"init_lora_weights": "pissa"}, Unsupported, "asks for init_lora_weights pissa"),
        ({}, {"a key of tomorrow": [1]}, Unsupported, "asks for a key of tomorrow"),
        ({"head.weight": (3, 4)}, {}, Unsupported, "has head.weight, which is no part of LoRA"),
        ({"head.lora_A.weight": (2, 4)}, {}, BadInput, "one of the two matrices of head"),
        ({"tail.lora_A.weight": (2, 4), "tail.lora_B.weight": (3, 2)}, {}, BadInput, "which Model does not have"),
        ({"head.lora_A.weight": (2, 5), "head.lora_B.weight": (3, 2)}, {}, BadInput, r"has \[3, 5\] for head.weight"),
        ({"head.lora_A.weight": (2, 4), "head.lora_B.weight": (3, 5)}, {}, Unsupported, "have no product"),
        ({"tied.lora_A.weight": (2, 4), "tied.lora_B.weight": (9, 2)}, {}, Unsupported, "which are one weight"),
        ({"head.lora_A.weight": (0, 4), "head.lora_B.weight": (3, 0)}, {"r": 0}, Unsupported, "have no product"),
        ({"head.lora_A.weight": (4, 4), "head.lora_B.weight": (3, 4)}, {}, BadInput, "rank 4, and .* says 2"),
        ({"head.lora_A.weight": (2, 1 << 20), "head.lora_B.weight": (1 << 20, 2)}, {}, BadInput, "has .1048576, 1048"),
        ({}, {"lora_alpha": float("nan")}, BadInput, "lora_alpha is nan"),
        ({}, {"lora_alpha": "6"}, BadInput, "lora_alpha is 6"),
        ({}, {"use_rslora": "no"}, BadInput, "use_rslora is no"),
        ({}, {"modules_to_save": "head"}, BadInput, "modules_to_save is no list of names"),
        ({}, {"modules_to_save": [""]}, BadInput, "modules_to_save is no list of names"),
        ({}, {"alpha_pattern": ["head"]}, BadInput, "is no JSON object"),
        ({}, {"alpha_pattern": {"(": 5}}, BadInput, "is no pattern"),
        ({}, {"alpha_pattern": {"(a+)+$": 5}}, Unsupported, "is too complicated"),
        ({}, {"rank_pattern": {".*.*.*.*x": 5}}, Unsupported, "is too complicated"),
    ],
)
def test_what_is_no_plain_lora_of_the_model_is_refused(
    weights: dict[str, Any], config: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    adapter(tmp_path, weights or {"head.lora_A.weight": (2, 4), "head.lora_B.weight": (3, 2)}, **config)
    with pytest.raises(error, match=message):
        merge_adapter(Model(), tmp_path, Report("test"))


def test_tensors_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    adapter(tmp_path, {})
    with pytest.raises(BadInput, match="has no weights"):
        merge_adapter(Model(), tmp_path, Report("test"))
    file, matrices = tmp_path / "adapter_model.safetensors", {"head.lora_A": (2, 4), "head.lora_B": (3, 2)}
    save_file({name: torch.ones(shape, dtype=torch.int32) for name, shape in matrices.items()}, file)
    with pytest.raises(BadInput, match=r"has head.lora_A of torch.int32"):
        merge_adapter(Model(), tmp_path, Report("test"))
    adapter(tmp_path, {**matrices, "head.lora_A.weight": (2, 4)})
    with pytest.raises(BadInput, match=r"has head.lora_A\S* twice"):
        merge_adapter(Model(), tmp_path, Report("test"))
    torch.save({"head.lora_A": torch.ones(2, 4)}, file)
    with pytest.raises(BadInput, match="is not a safetensors file"):
        merge_adapter(Model(), tmp_path, Report("test"))


def test_an_adapter_needs_both_of_its_files_and_a_folder_of_a_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no adapter_config\.json"):
        merge_adapter(Model(), tmp_path, Report("test"))
    (tmp_path / "adapter_config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(Unsupported, match=r"has no adapter_model\.safetensors"):
        merge_adapter(Model(), tmp_path, Report("test"))
    with pytest.raises(UsageError, match="belongs to a Hugging Face folder"):
        load(Source("torch-module-object", model=Model()), Options(extra={"adapter": str(tmp_path)}))
