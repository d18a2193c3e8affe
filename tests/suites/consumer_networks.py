"""Twenty small networks of different kinds, with fixed seeds, for `consumers.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.suites.planted_networks import vary_weights


class Residual(nn.Module):
    """A residual block: the input plus a branch of it."""

    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x)


class Branches(nn.Module):
    """Branches of one tensor, concatenated along its channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Gate(nn.Module):
    """Squeeze and excitation: channels are scaled by a function of their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.less, self.more = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.more(self.less(x.mean((2, 3), keepdim=True)).relu()).sigmoid()


class Attention(nn.Module):
    """A transformer layer, for 12 tokens of 16 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        q, k, v = (f(y).unflatten(2, (2, 8)).transpose(1, 2) for f in (self.query, self.key, self.value))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


class Recurrent(nn.Module):
    """A recurrent layer and a linear one on its last step."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.out = layer, nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layer(x)[0][:, -1])


class Words(nn.Module):
    """Embeddings, a convolution over time, its maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.convolution, self.out = nn.Embedding(50, 8), nn.Conv1d(8, 16, 3), nn.Linear(16, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.convolution(self.words(words).transpose(1, 2)).relu().amax(2))


class Unet(nn.Module):
    """A U-Net of one level."""

    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2)
        self.middle, self.up, self.last = nn.Conv2d(8, 8, 3, padding=1), up, nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        return self.last(torch.cat([x, self.up(self.middle(self.down(x)).relu())], 1))


class Shuffle(nn.Module):
    """ShuffleNet's unit: grouped convolutions with channels mixed between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(12, 12, 1, groups=3), nn.Conv2d(12, 12, 3, padding=1, groups=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).relu()
        return x + self.second(y.unflatten(1, (3, 4)).transpose(1, 2).flatten(1, 2))


def conv(given: int, made: int, kernel: int = 3, *, act: type[nn.Module] = nn.ReLU, **options: int) -> nn.Sequential:
    """Return a convolution that keeps sizes, a batch norm, an activation."""
    pad = kernel // 2 * options.get("dilation", 1)
    layer = nn.Conv2d(given, made, kernel, padding=pad, bias=False, **options)
    return nn.Sequential(layer, nn.BatchNorm2d(made), act())


def classifier(*body: nn.Module, channels: int) -> nn.Sequential:
    """Return a body, the mean over positions, and scores."""
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5))


def _mobile() -> nn.Module:
    def block() -> nn.Module:
        grown = conv(8, 24, 1, act=nn.ReLU6), conv(24, 24, act=nn.ReLU6, groups=24)
        return Residual(*grown, conv(24, 8, 1, act=nn.Identity))

    return classifier(conv(3, 8, stride=2, act=nn.ReLU6), block(), block(), channels=8)


def _inception() -> nn.Module:
    pooled = nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(8, 4, 1))
    wide = nn.Sequential(conv(8, 4, 1), conv(4, 4, 5))
    return classifier(conv(3, 8), Branches(conv(8, 4, 1), conv(8, 4, 3), wide, pooled), channels=16)


def _dense() -> nn.Module:
    def layer(given: int) -> nn.Module:
        grown = nn.Sequential(nn.BatchNorm2d(given), nn.ReLU(), nn.Conv2d(given, 6, 3, padding=1, bias=False))
        return Branches(nn.Identity(), grown)

    return classifier(nn.Conv2d(3, 8, 3, 2, 1), layer(8), layer(14), nn.AvgPool2d(2), channels=20)


def _old() -> nn.Module:
    """Return AlexNet's parts: local response norms, overlapping pools that round up, dropout."""
    first = nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(*first, nn.Flatten(), nn.Dropout(), nn.Linear(8 * 8 * 8, 20), nn.Tanh(), nn.Linear(20, 5))


def _styles() -> nn.Module:
    def norm(channels: int) -> nn.Module:
        return nn.InstanceNorm2d(channels, affine=True)

    ends = [nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), norm(8), nn.ReLU()]
    again = Residual(nn.Conv2d(8, 8, 3, padding=1), norm(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), norm(8))
    return nn.Sequential(*ends, again, nn.Conv2d(8, 3, 3, padding=1), nn.Tanh())


def _generator() -> nn.Module:
    first = nn.ConvTranspose2d(8, 12, 4, 2, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU()
    return nn.Sequential(*first, nn.ConvTranspose2d(12, 3, 3, 2, 1, output_padding=1), nn.Tanh())


def _waves() -> nn.Module:
    def block(dilation: int) -> nn.Module:
        return Residual(nn.Conv1d(8, 8, 3, padding=dilation, dilation=dilation), nn.ELU())

    return nn.Sequential(nn.Conv1d(1, 8, 5, 2, 2), block(1), block(2), block(4), nn.Conv1d(8, 4, 1))


def _plain() -> nn.Module:
    body = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3), nn.ReLU()
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(12 * 16, 5), nn.Softmax(1))


@dataclass(frozen=True)
class Network:
    """`build` creates the module; `shape` is that of its only input without the batch; with `rows`, the input is int64
    below it.
    """

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    rows: int = 0


IMAGE = (3, 32, 32)
SEQUENCE = (9, 6)
TOKENS = (12, 16)

NETWORKS: dict[str, Network] = {
    "mlp": Network(lambda: nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5), nn.Sigmoid()), (10,)),
    "cnn": Network(_plain, (1, 14, 14)),
    "residual": Network(lambda: classifier(conv(3, 8), Residual(conv(8, 8), conv(8, 8)), nn.ReLU(), channels=8), IMAGE),
    "depthwise": Network(_mobile, IMAGE),
    "grouped": Network(lambda: classifier(nn.Conv2d(3, 12, 3), Shuffle(), Shuffle(), channels=12), IMAGE),
    "inception": Network(_inception, IMAGE),
    "dense": Network(_dense, IMAGE),
    "gated": Network(lambda: classifier(conv(3, 8), Residual(conv(8, 8), Gate(8)), channels=8), IMAGE),
    "dilated": Network(
        lambda: nn.Sequential(conv(3, 8), Branches(conv(8, 6, 1), conv(8, 6, dilation=2)), nn.Conv2d(12, 2, 1)), IMAGE
    ),
    "responses": Network(_old, IMAGE),
    "nearest": Network(lambda: Unet(nn.Upsample(scale_factor=2)), IMAGE),
    "bilinear": Network(lambda: Unet(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)), IMAGE),
    "transposed": Network(_generator, (8, 7, 5)),
    "pixels": Network(
        lambda: nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.PReLU(8), nn.Conv2d(8, 9, 3, padding=1),
                              nn.PixelShuffle(3)), (1, 10, 12)),
    "styles": Network(_styles, (3, 16, 16)),
    "waves": Network(_waves, (1, 64)),
    "words": Network(Words, (14,), rows=50),
    "attention": Network(Attention, TOKENS),
    "lstm": Network(lambda: Recurrent(nn.LSTM(6, 12, batch_first=True)), SEQUENCE),
    "gru": Network(lambda: Recurrent(nn.GRU(6, 12, batch_first=True)), SEQUENCE),
}  # fmt: skip
"""Kinds of networks by name."""


def build(name: str) -> nn.Module:
    """Return the network in eval mode, with the same weights every time."""
    torch.manual_seed(len(name))
    return vary_weights(NETWORKS[name].build().eval())


def spec(name: str, batch: str = "batch") -> str:
    """Return the spec of the input for `convert`."""
    network = NETWORKS[name]
    return f"{'int64' if network.rows else 'float32'}[{batch},{','.join(map(str, network.shape))}]"


def feed(name: str, batch: int = 2) -> dict[str, np.ndarray]:
    """Return numbers for the input, by its name."""
    network, random = NETWORKS[name], np.random.default_rng(len(name))
    shape = (batch, *network.shape)
    x = random.integers(0, network.rows, shape) if network.rows else random.standard_normal(shape).astype(np.float32)
    return {next(iter(signature(network.build().forward).parameters)): x}


def answers(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return PyTorch's outputs in float32 and in float64."""
    with torch.no_grad():
        single = build(name)(torch.from_numpy(x))
        double = build(name).double()(torch.from_numpy(x if x.dtype.kind == "i" else x.astype(np.float64)))
    return single.numpy(), double.numpy()
