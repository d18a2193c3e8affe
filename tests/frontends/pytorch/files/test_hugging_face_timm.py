"""Folders saved by timm, against timm itself."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from safetensors.torch import save_file

from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.pytorch_tools import run
from tests.support.timm_helper import calibrated, declare_torchvision_operators

declare_torchvision_operators()
pytest.importorskip("transformers", reason="Hugging Face folders need transformers")
timm: Any = pytest.importorskip("timm")

ROWS = [
    ("test_resnet", {"num_classes": 5}, [3, 160, 160], "logits"),
    ("test_resnet", {"num_classes": 5, "in_chans": 1}, [1, 160, 160], "logits"),
    ("test_resnet", {"num_classes": 0}, [3, 160, 160], "pooler_output"),
    ("test_vit", {"num_classes": 5, "img_size": 96}, [3, 96, 96], "logits"),
]


def save(folder: Path, name: str, arguments: dict[str, Any], recorded: bool) -> Any:
    """Save a network with random weights in `folder` as timm saves it, before or since it records its arguments."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = timm.create_model(name, pretrained=False, **arguments)
    described = module.pretrained_cfg
    channels, size = arguments.get("in_chans", 3), arguments.get("img_size", described["input_size"][-1])
    module = calibrated(module, torch.randn(4, channels, size, size))
    config = {
        "architecture": name,
        "num_classes": module.num_classes,
        "num_features": module.num_features,
        "pretrained_cfg": {"input_size": [channels, size, size], "num_classes": 1000, "mean": [0.5] * 3},
    }
    if recorded or len(arguments) > 1:  # timm 1.0.31 also records num_classes
        config["model_args"] = {k: v for k, v in arguments.items() if recorded or k != "num_classes"}
    if recorded:
        config["pretrained_cfg"] |= {"input_size": list(described["input_size"])}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(module.state_dict(), folder / "model.safetensors")
    return module


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("name", "arguments", "size", "output"), ROWS)
def test_a_folder_gives_what_timm_gives(
    name: str, arguments: dict[str, Any], size: list[int], output: str, recorded: bool, tmp_path: Path
) -> None:
    module = save(tmp_path / "m", name, arguments, recorded)
    model = frontend.read(Source("hf-folder", tmp_path / "m"), Options(), Report("convert"))
    (given,) = model.graph.inputs
    assert list(map(str, given.shape or ())) == ["batch_size", str(size[0]), "height", "width"]
    names = [v.name for v in model.graph.outputs]
    assert names == (["logits"] if output == "logits" else ["last_hidden_state", "pooler_output"])
    for more in (0, 64):
        shape = (2, size[0], size[1], size[2] + more)
        picture = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        with torch.no_grad():
            want = module(torch.from_numpy(picture)).numpy()
        np.testing.assert_allclose(run(model, picture)[names.index(output)], want, rtol=1e-4, atol=2e-5)


@pytest.mark.slow
def test_features_may_be_asked_for(tmp_path: Path) -> None:
    save(tmp_path / "m", "test_resnet", {"num_classes": 5}, True)
    options = Options(extra={"task": "feature-extraction"})
    model = frontend.read(Source("hf-folder", tmp_path / "m"), options, Report("convert"))
    assert [v.name for v in model.graph.outputs] == ["last_hidden_state", "pooler_output"]
