"""Convert image networks with dynamic height and width, and run them at ten sizes: no wrong numbers may come out.

    python -m tests.suites.picture_sizes [NAME …]

Each network is converted to ONNX as `x:float32[batch,3,h,w]`, and run at each of `SIZES` by PyTorch and by onnxruntime.
At each size the artefact must be right or raise an error; a network may also be refused as a whole, with an
`Unsupported`. Anything else is silent: other numbers or another shape without an error. The exit code is 1 if a network
is silent.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import convert
from convert.errors import ConvertError
from tests.support.timm_helper import create

SIZES = [(64, 64), (96, 64), (65, 97), (128, 32), (33, 47), (80, 80), (57, 111), (40, 72), (101, 37), (160, 96)]

TIMM = (
    "resnet18", "resnet26t", "mobilenetv2_100", "mobilenetv3_small_100", "efficientnet_b0", "tf_efficientnet_lite0",
    "fbnetc_100", "mixnet_s", "mnasnet_small", "ghostnet_050", "lcnet_050", "tinynet_e",
    "regnetx_002", "regnety_002", "convnext_atto", "repvgg_a0", "hardcorenas_a", "semnasnet_075", "edgenext_xx_small",
    "resnest14d", "tf_efficientnet_b0", "tf_mobilenetv3_small_100", "tf_mixnet_s",
)  # fmt: skip
"""Networks of timm that accept any size; the padding of TensorFlow's, `tf_…`, depends on the size."""


def conv(before: int, after: int, kernel: int = 3, **rest: int) -> nn.Sequential:
    """Return a convolution that keeps the size but for its stride, a normalization and a Relu."""
    layer = nn.Conv2d(before, after, kernel, padding=kernel // 2 * rest.get("dilation", 1), **rest)
    return nn.Sequential(layer, nn.BatchNorm2d(after), nn.ReLU())


class UNet(nn.Module):
    """A U-Net of two levels; `how` selects how the decoder's maps get the size of the encoder's."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.one, self.two, self.three = how, conv(3, 8), conv(8, 16), conv(16, 32)
        self.up_two, self.up_one = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.join_two, self.join_one, self.last = conv(32, 16), conv(16, 8), nn.Conv2d(8, 2, 1)

    def joined(self, up: Tensor, across: Tensor) -> Tensor:
        h, w = across.shape[2:]
        if self.how == "pad":
            dh, dw = h - up.shape[2], w - up.shape[3]
            up = F.pad(up, (dw // 2, dw - dw // 2, dh // 2, dh - dh // 2))
        elif self.how == "crop":
            across = across[:, :, : up.shape[2], : up.shape[3]]
        else:
            up = F.interpolate(up, (h, w), mode="bilinear", align_corners=False)
        return torch.cat([across, up], 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.one(x)
        two = self.two(F.max_pool2d(one, 2))
        three = self.three(F.max_pool2d(two, 2))
        two = self.join_two(self.joined(self.up_two(three), two))
        return self.last(self.join_one(self.joined(self.up_one(two), one)))


class Pyramid(nn.Module):
    """A feature pyramid: coarse maps are enlarged to the size of the finer ones and added."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.down = nn.ModuleList([conv(3, 8, stride=2), conv(8, 16, stride=2), conv(16, 32, stride=2)])
        self.across = nn.ModuleList([nn.Conv2d(n, 8, 1) for n in (8, 16, 32)])

    def forward(self, x: Tensor) -> Tensor:
        maps = []
        for layer in self.down:
            maps.append(x := layer(x))
        found = self.across[2](maps[2])
        for level in (1, 0):
            options = {} if self.mode == "nearest" else {"align_corners": True}
            found = self.across[level](maps[level]) + F.interpolate(
                found, size=maps[level].shape[-2:], mode=self.mode, **options
            )
        return found


class PooledPyramid(nn.Module):
    """PSPNet's averages over bins of several sizes, enlarged to the map again."""

    def __init__(self, bins: tuple[int, ...] = (1, 2, 3, 6)) -> None:
        super().__init__()
        self.stem, self.bins, self.last = conv(3, 8, stride=2), bins, nn.Conv2d(8 * (1 + len(bins)), 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        sized = [F.interpolate(F.adaptive_avg_pool2d(x, n), x.shape[2:], mode="bilinear") for n in self.bins]
        return self.last(torch.cat([x, *sized], 1))


class Atrous(nn.Module):
    """DeepLab's dilated convolutions next to a global average, enlarged to the size of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8, stride=4)
        self.rates = nn.ModuleList([conv(8, 8, dilation=n) for n in (1, 2, 4)])
        self.mean, self.last = nn.Conv2d(8, 8, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        mean = self.mean(y.mean((2, 3), keepdim=True)).expand(-1, -1, *y.shape[2:])
        return F.interpolate(self.last(torch.cat([*(r(y) for r in self.rates), mean], 1)), x.shape[2:], mode="bilinear")


class Patches(nn.Module):
    """A vision transformer: patches with position embeddings that are resized to the image, and attention."""

    def __init__(self, window: int = 0, pad: bool = True) -> None:
        super().__init__()
        self.window, self.pad = window, pad
        self.patch, self.places = nn.Conv2d(3, 16, 8, 8), nn.Parameter(torch.randn(1, 16, 7, 7))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.pad:
            x = F.pad(x, (0, -x.shape[3] % 8, 0, -x.shape[2] % 8))
        x = self.patch(x)
        x = x + F.interpolate(self.places, x.shape[2:], mode="bicubic", align_corners=False)
        if not self.window:
            return self.layer(x.flatten(2).mT).mean(1)
        n, c, h, w = x.shape
        k = self.window
        x = F.pad(x, (0, -w % k, 0, -h % k))
        rows, columns = x.shape[2] // k, x.shape[3] // k
        tiles = x.view(n, c, rows, k, columns, k).permute(0, 2, 4, 3, 5, 1).reshape(-1, k * k, c)
        back = self.layer(tiles).view(n, rows, columns, k, k, c).permute(0, 5, 1, 3, 2, 4)
        return back.reshape(n, c, rows * k, columns * k)[:, :, :h, :w]


class Excited(nn.Module):
    """Channels weighted by their means, and positions weighted by mean and largest channel (CBAM)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down, self.up, self.place = conv(3, 16), nn.Linear(16, 4), nn.Linear(4, 16), nn.Conv2d(2, 1, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x * self.up(self.down(x.mean((2, 3))).relu()).sigmoid()[:, :, None, None]
        both = torch.stack([x.mean(1), x.amax(1)], 1)
        return x * self.place(F.pad(both, (3, 3, 3, 3), mode="reflect")).sigmoid()


class Detector(nn.Module):
    """A grid of anchors computed from the size of the map, and boxes in pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.head = nn.Sequential(conv(3, 8, stride=2), conv(8, 16, stride=4)), nn.Conv2d(16, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(self.net(x))
        n, _, h, w = y.shape
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        centers = torch.stack([columns, rows], -1).view(1, -1, 2) * 8.0 + 4
        boxes, scores = y.flatten(2).mT.split([4, 2], -1)
        corners = torch.cat([centers - boxes[..., :2].exp() * 8, centers + boxes[..., 2:].exp() * 8], -1)
        limit = torch.tensor([x.shape[3], x.shape[2]]).repeat(2)
        return torch.cat([corners.clamp(min=0).minimum(limit), scores.softmax(-1)], -1).view(n, h * w, 6)


class Function(nn.Module):
    """A stem of convolutions, and a function of image and map."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.stem, self.function = nn.Sequential(conv(3, 8, stride=2), conv(8, 16)), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.stem(x))


def sampled(x: Tensor, y: Tensor) -> Tensor:
    """Return the map sampled at the points that its own channels give, on a grid of its size."""
    grid = F.affine_grid(torch.eye(2, 3).expand(len(y), 2, 3), list(y.shape), align_corners=False)
    return F.grid_sample(y, grid + y[:, :2].permute(0, 2, 3, 1).tanh() * 0.1, align_corners=False)


def correlated(x: Tensor, y: Tensor) -> Tensor:
    """Return products of the map with itself, shifted by up to two positions each way (a correlation of optical
    flow).
    """
    padded, (h, w) = F.pad(y, (2, 2, 2, 2)), y.shape[2:]
    moved = [(y * padded[:, :, i : i + h, j : j + w]).mean(1) for i in range(5) for j in range(5)]
    return torch.stack(moved, 1)


def self_attention(x: Tensor, y: Tensor) -> Tensor:
    """Return a non-local block: each position of a pooled map attends to all others."""
    y = F.avg_pool2d(y, 4, ceil_mode=True, count_include_pad=False)
    flat = y.flatten(2)
    return (flat @ (flat.mT @ flat / 4).softmax(-1)).view(y.shape)


def shuffled(x: Tensor, y: Tensor) -> Tensor:
    """Return an image of twice the size of the map, added to the enlarged source (super resolution)."""
    up = F.pixel_shuffle(y, 2)
    return up.sum(1, keepdim=True) + F.interpolate(x, up.shape[2:], mode="bicubic")


OWN: dict[str, Callable[[], nn.Module]] = {
    "unet padded": lambda: UNet("pad"),
    "unet cropped": lambda: UNet("crop"),
    "unet resized": lambda: UNet("resize"),
    "pyramid nearest": lambda: Pyramid("nearest"),
    "pyramid bilinear": lambda: Pyramid("bilinear"),
    "pooled pyramid": PooledPyramid,
    "atrous": Atrous,
    "patches padded": Patches,
    "patches": lambda: Patches(pad=False),
    "windows of patches": lambda: Patches(window=4),
    "excited": Excited,
    "detector": Detector,
    "sampled": lambda: Function(sampled),
    "correlated": lambda: Function(correlated),
    "self attention": lambda: Function(self_attention),
    "shuffled": lambda: Function(shuffled),
    "argmax of a map": lambda: Function(lambda x, y: F.interpolate(y, x.shape[2:], mode="bilinear").argmax(1)),
    "adaptive maxima": lambda: Function(lambda x, y: F.adaptive_max_pool2d(y, (3, 5)).flatten(1)),
    "half and back": lambda: Function(
        lambda x, y: F.interpolate(F.interpolate(y, scale_factor=0.5, mode="area"), size=y.shape[2:], mode="nearest")
    ),
    "unfolded": lambda: Function(lambda x, y: F.unfold(y, 3, padding=1, stride=2).mean(1)),
}
"""Handwritten networks; each derives sizes from the picture in another way."""


def made(name: str) -> nn.Module:
    """Return the network of this name, seeded."""
    torch.manual_seed(0)
    return create(name) if name in TIMM else OWN[name]().eval()


@dataclass
class Outcome:
    """The numbers of right and refused sizes, the silent sizes, and the reason if all are refused."""

    right: int = 0
    refused: int = 0
    silent: tuple[tuple[int, int], ...] = ()
    why: str = ""


def outcome(name: str) -> Outcome:
    """Convert a network and run it at all sizes that its forward accepts."""
    module = made(name)
    try:
        proto = convert.to_onnx(module, "x:float32[batch,3,h,w]", verify=False)
    except ConvertError as error:
        return Outcome(why=str(error))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = Outcome()
    for place, (h, w) in enumerate(SIZES):
        x = torch.from_numpy(np.random.default_rng(place).standard_normal((1 + place % 2, 3, h, w)).astype(np.float32))
        try:
            with torch.no_grad():
                want = module(x).numpy()
        except Exception:
            continue  # sizes that forward rejects are skipped
        try:
            (got,) = session.run(None, {"x": x.numpy()})
        except Exception:
            found.refused += 1
            continue
        if got.shape == want.shape and _agree(got, want):
            found.right += 1
        else:
            found.silent += ((h, w),)
    return found


def _agree(got: np.ndarray, want: np.ndarray) -> bool:
    """Return whether numbers agree to 1e-4 of their size. One of a thousand indices may differ, because of ties."""
    if want.dtype.kind in "iu":
        return bool(np.mean(got != want) <= 1e-3)
    return bool(np.abs(got - want).max() <= 1e-4 * max(float(np.abs(want).max()), 1e-6))


def main() -> int:
    """Print a row for each network; return 1 if one is silent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of networks; all where none is given")
    names = parser.parse_args().names or [*OWN, *TIMM]
    warnings.simplefilter("ignore")
    silent = 0
    for name in names:
        found = outcome(name)
        silent += bool(found.silent)
        counts = f"right {found.right:2}  refused {found.refused:2}  silent {found.silent or 0}"
        print(f"{name:34} {counts}  {found.why[:99]}", flush=True)
    print(f"{len(names)} networks: {silent} silent")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
