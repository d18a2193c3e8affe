"""Ten networks and four recurrent or attention networks as Caffe2 nets, run and verified by the real Caffe2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from convert.frontends.caffe2.runner.runner import available
from torch import nn

import convert
from convert.parity.method import VerifyMethod
from tests.convert.test_networks import NETWORKS, spec
from tests.support import timm_helper

pytestmark = [pytest.mark.caffe2, pytest.mark.long]


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers over any number of words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(24, 5)
        self.lstm = nn.LSTM(8, 12, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(words))[0])


class Listener(nn.Module):
    """Convolutions over time, then a GRU, whose last state is used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gru, self.head = nn.Conv1d(6, 10, 3, stride=2), nn.GRU(10, 12), nn.Linear(12, 4)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.conv(sound)).permute(2, 0, 1)
        return self.head(self.gru(features)[1][0])


class Encoder(nn.Module):
    """Two transformer layers over any number of words."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
        self.embedding = nn.Embedding(50, 16)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(words)).mean(1))


class Decoder(nn.Module):
    """Causal attention with a table of positions, and the scores of the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.place = nn.Embedding(40, 16), nn.Embedding(12, 16)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words) + self.place(torch.arange(words.shape[1]))
        q, k, v = (p.unflatten(-1, (2, 8)).transpose(1, 2) for p in self.qkv(self.norm(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (x + self.out(y.transpose(1, 2).flatten(2))) @ self.embedding.weight.T


SEQUENCES = {
    "tagger": (Tagger, "words:int64[batch,length]"),
    "listener": (Listener, "sound:float32[batch,6,40]"),
    "encoder": (Encoder, "words:int64[batch,length]"),
    "decoder": (Decoder, "words:int64[batch,length=1..12]"),
}


def verified(module: nn.Module, inputs: str, output: Path) -> Any:
    """Convert, verify on the real Caffe2, and return the report."""
    if reason := available():
        pytest.skip(reason)
    report = convert.convert(module, "caffe2", output, inputs=inputs, verify=True, method=VerifyMethod(seeds=2))
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict
    return report


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, tmp_path: Path) -> None:
    report = verified(timm_helper.create(name, NETWORKS[name]), spec(name), tmp_path / f"{name}.caffe2")
    assert report.outputs[0].shape == ("batch", 1000)


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence_network(name: str, tmp_path: Path) -> None:
    make, inputs = SEQUENCES[name]
    torch.manual_seed(0)
    report = verified(make().eval(), inputs, tmp_path / f"{name}.caffe2")
    assert report.inputs[0].shape[0] == "batch"
