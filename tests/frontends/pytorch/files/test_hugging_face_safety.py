"""Hugging Face folders that refer transformers to code, to the hub or to files outside them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.files import hugging_face
from convert.frontends.pytorch.files.hugging_face_safety import check_folder, pickled_weights

from convert.errors import BadInput, UnsafeInput
from convert.files.folders import shards
from convert.files.sniff import sniff
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()

ELSEWHERE: list[tuple[dict[str, Any], str]] = [
    ({"auto_map": {"AutoModel": "own.Model"}}, "own.Model"),
    ({"auto_map": ["own.Model", 1]}, "own.Model, 1"),
    ({"text_config": {"parts": [{"auto_map": {"AutoModel": "own.Model"}}]}}, "own.Model"),
    ({"attn_implementation": "evil/kernel"}, "'evil/kernel'"),
    ({"_attn_implementation": {"text_config": "evil/kernel"}}, "'evil/kernel'"),
    ({"vision_config": {"_attn_implementation_internal": "evil/kernel"}}, "'evil/kernel'"),
    ({"experts_implementation": "evil/kernel"}, "'evil/kernel'"),
    ({"architecture": "hf-hub:evil/net"}, "'hf-hub:evil/net'"),
    ({"backbone_config": {"backbone": "local-dir:/tmp"}}, "'local-dir:/tmp'"),
    ({"backbone": "/tmp/net"}, "'/tmp/net'"),
    ({"model_args": {"checkpoint_path": "/tmp/net.pt"}}, "'/tmp/net.pt'"),
    ({"backbone_kwargs": {"pretrained": True}}, "pretrained True"),
    ({"transformers_weights": "below/model.safetensors.index.json"}, "below/model"),
    ({"transformers_weights": "adapter_model.bin"}, "adapter_model.bin"),
]
HERE: list[dict[str, Any]] = [
    {"attn_implementation": "sdpa", "_attn_implementation": None, "experts_implementation": "eager"},
    {
        "architecture": "resnet50",
        "model_args": {"img_size": 224, "pretrained": False},
        "pretrained_cfg": {"url": "x/y"},
    },
    {"backbone": "resnet50.a1_in1k", "use_pretrained_backbone": True, "backbone_kwargs": None},
    {"_name_or_path": "/home/me/bert", "transformers_weights": "model.safetensors", "architectures": ["BertModel"]},
]


@pytest.mark.parametrize(("config", "told"), ELSEWHERE)
def test_a_configuration_that_leads_elsewhere_is_refused(config: dict[str, Any], told: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsafeInput) as raised:
        check_folder(tmp_path)
    assert told in raised.value.message
    # transformers may be told to use these instead of the first one
    (tmp_path / "config.json").rename(tmp_path / "config.4.0.0.json")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UnsafeInput):
        check_folder(tmp_path)


@pytest.mark.parametrize("config", HERE)
def test_any_other_configuration_is_taken(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    check_folder(tmp_path)


def test_an_adapter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(BadInput, match="holds an adapter"):
        check_folder(tmp_path)


@pytest.mark.parametrize("name", ["../beside.safetensors", "/etc/passwd", "below/../../beside.safetensors"])
def test_an_index_that_leaves_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "beside.safetensors").write_bytes(b"x")
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "m.safetensors", "b": name}}))
    with pytest.raises(UnsafeInput, match="outside of the model's folder"):
        sniff(folder)


@pytest.mark.parametrize("table", [None, {}, [], {"weight_map": None}, {"weight_map": {"a": 1}}, {"weight_map": {}},
                                   {"weight_map": {"a": "x\0"}}, {"weight_map": {"a": []}}])  # fmt: skip
def test_an_index_that_is_none_is_refused(table: Any, tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text(json.dumps(table))
    with pytest.raises(BadInput):
        shards(tmp_path / "i.json")


def test_the_pickles_that_are_loaded_are_those_of_the_indices_and_of_the_usual_names(tmp_path: Path) -> None:
    for name in ("a.bin", "b.safetensors", "pytorch_model.bin", "training_args.bin"):
        (tmp_path / name).write_bytes(b"x")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "a.bin", "y": "b.safetensors"}}))
    assert [p.name for p in pickled_weights(tmp_path)] == ["a.bin", "pytorch_model.bin"]
    index.unlink()
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert pickled_weights(tmp_path) == []


def test_transformers_loads_offline_and_can_neither_write_nor_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers: Any = pytest.importorskip("transformers", reason="Hugging Face folders need transformers")
    from huggingface_hub import constants

    offline = []

    def write(*_: Any, **__: Any) -> None:
        offline.append(constants.HF_HUB_OFFLINE)
        (tmp_path / "written").write_text("x")

    def connect(*_: Any, **__: Any) -> None:
        socket.create_connection(("127.0.0.1", 9))

    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    for act in (write, connect):
        monkeypatch.setattr(transformers.BertModel, "from_pretrained", act)
        with pytest.raises(BadInput, match="PermissionError"):
            hugging_face.load_folder(tmp_path, Options(), Report("load"))
    assert offline == [True]
    assert not (tmp_path / "written").exists()


def test_a_changed_byte_of_a_pickle_is_noticed(tmp_path: Path) -> None:
    from convert.frontends.pytorch.files.loader import load

    from convert.request.source import Source

    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    path = tmp_path / "pytorch_model.bin"
    torch.save({"w": torch.arange(1000.0)}, path)
    content = bytearray(path.read_bytes())
    content[content.index(torch.arange(1000.0).numpy().tobytes()) + 401] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match="has changed since it was written"):
        load(Source("hf-folder", tmp_path), Options())
