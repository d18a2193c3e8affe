"""Networks that run on phones, with random weights: only PyTorch and timm, so that the environments of the peers can
build them.

`build(name)` returns a module in eval mode and its inputs, of batch 1; the weights come from a seed, or from a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Input(NamedTuple):
    """The shape of an input, and how many words there are if it holds words; other inputs hold normal numbers."""

    shape: tuple[int, ...]
    words: int = 0


TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet18": ("resnet18", {"zero_init_last": False}),
    "mobilenetv2": ("mobilenetv2_100", {}),
    "mobilenetv3": ("mobilenetv3_small_100", {}),
    "efficientnet-b0": ("efficientnet_b0", {}),
    "efficientnet-lite0": ("efficientnet_lite0", {}),
    "convnext": ("convnext_atto", {"ls_init_value": 0.5}),
    "vit": ("vit_tiny_patch16_224", {}),
    "swin": ("swin_tiny_patch4_window7_224", {"embed_dim": 24, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 4, 8)}),
    "mobilevit": ("mobilevit_xxs", {}),
    "edgenext": ("edgenext_xx_small", {"ls_init_value": 0.5}),
    "ghostnet": ("ghostnet_050", {}),
    "lcnet": ("lcnet_050", {}),
    "mnasnet": ("mnasnet_small", {}),
    "regnet": ("regnetx_002", {"zero_init_last": False}),
    "tinynet": ("tinynet_e", {}),
}
"""The name and the settings of each network of timm. Without these settings, factors of untrained branches are 0 or
1e-6: a converter may remove such branches, and 8 bits do not show their errors.
"""


def conv(i: int, o: int, stride: int = 1, act: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), act())


class Yolo(nn.Module):
    """A backbone, two scales, and an output of boxes in pixels joined with probabilities, as YOLOv8 exports it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 2), conv(16, 32, 2), conv(32, 64, 2), conv(64, 64))
        self.down, self.up = conv(64, 64, 2), nn.Upsample(scale_factor=2)
        self.join = conv(128, 64)
        self.heads = nn.ModuleList([nn.Conv2d(64, 4 + 20, 1), nn.Conv2d(64, 4 + 20, 1)])

    def forward(self, x: Tensor) -> Tensor:
        fine = self.stem(x)
        coarse = self.down(fine)
        maps = [self.join(torch.cat([fine, self.up(coarse)], 1)), coarse]
        found = torch.cat([head(m).flatten(2) for head, m in zip(self.heads, maps, strict=True)], 2)
        return torch.cat([found[:, :4].sigmoid() * 160, found[:, 4:].sigmoid()], 1)


class Ssd(nn.Module):
    """Three scales; boxes and softmax scores are two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [nn.Sequential(conv(3, 16, 2, nn.ReLU6), conv(16, 32, 2, nn.ReLU6)), conv(32, 64, 2, nn.ReLU6)]
        )
        self.boxes = nn.ModuleList([nn.Conv2d(c, 3 * 4, 3, padding=1) for c in (32, 64)])
        self.scores = nn.ModuleList([nn.Conv2d(c, 3 * 21, 3, padding=1) for c in (32, 64)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = [], []
        for stage, box, score in zip(self.stages, self.boxes, self.scores, strict=True):
            x = stage(x)
            boxes.append(box(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
            scores.append(score(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 21))
        return torch.cat(boxes, 1), torch.cat(scores, 1).softmax(2)


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = conv(3, 16, 1, nn.ReLU), conv(16, 32, 2, nn.ReLU), conv(32, 64, 2, nn.ReLU)
        self.up_two, self.up_one = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.join_two, self.join_one = conv(64, 32, 1, nn.ReLU), conv(32, 16, 1, nn.ReLU)
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.one(x)
        two = self.two(one)
        two = self.join_two(torch.cat([self.up_two(self.three(two)), two], 1))
        return self.last(self.join_one(torch.cat([self.up_one(two), one], 1)))


class Keywords(nn.Module):
    """Depthwise separable convolutions over a spectrogram (keyword spotting)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 64, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(64), nn.ReLU())
        self.blocks = nn.Sequential(*[self.block() for _ in range(4)])
        self.last = nn.Linear(64, 12)

    @staticmethod
    def block() -> nn.Sequential:
        deep = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU())
        return nn.Sequential(deep, nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.blocks(self.first(x)).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer, self.last = kind(32, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(x)[0][:, -1])


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0, activation="gelu")
        self.encoder, self.last = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(64, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.encoder(x)[:, 0])


class DeepLab(nn.Module):
    """Dilated convolutions of several rates and a mean of the picture, joined, then resized to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 2, nn.ReLU), conv(16, 32, 2, nn.ReLU), conv(32, 64, 2, nn.ReLU))
        self.rates = nn.ModuleList([nn.Conv2d(64, 32, 3, padding=rate, dilation=rate) for rate in (1, 2, 4)])
        self.mean, self.last = nn.Conv2d(64, 32, 1), nn.Conv2d(4 * 32, 21, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        wide = functional.interpolate(self.mean(y.mean((2, 3), keepdim=True)), size=y.shape[2:], mode="bilinear")
        y = self.last(torch.cat([*(rate(y).relu() for rate in self.rates), wide.relu()], 1))
        return functional.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


class Pose(nn.Module):
    """Heatmaps of 17 places, by transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 2, nn.ReLU6), conv(16, 32, 2, nn.ReLU6), conv(32, 64, 2, nn.ReLU6))
        self.up = nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.last = nn.Conv2d(32, 17, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.up(self.stem(x))).sigmoid()


class Face(nn.Module):
    """Blocks of depthwise convolutions with padded shortcuts; boxes and scores of two scales (BlazeFace)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 24, 2, nn.ReLU)
        sizes = [(24, 32), (32, 48), (48, 64)]
        self.deep = nn.ModuleList([nn.Conv2d(i, i, 5, 2, 2, groups=i) for i, _ in sizes])
        self.wide = nn.ModuleList([nn.Conv2d(i, o, 1) for i, o in sizes])
        self.boxes = nn.ModuleList([nn.Conv2d(o, 2 * 16, 1) for _, o in sizes[1:]])
        self.scores = nn.ModuleList([nn.Conv2d(o, 2, 1) for _, o in sizes[1:]])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x, maps = self.stem(x), []
        for deep, wide in zip(self.deep, self.wide, strict=True):
            short = functional.max_pool2d(x, 2)
            y = wide(deep(x))
            x = (y + functional.pad(short, (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))).relu()
            maps.append(x)
        boxes = [head(m).permute(0, 2, 3, 1).reshape(1, -1, 16) for head, m in zip(self.boxes, maps[1:], strict=True)]
        scores = [head(m).permute(0, 2, 3, 1).reshape(1, -1, 1) for head, m in zip(self.scores, maps[1:], strict=True)]
        return torch.cat(boxes, 1), torch.cat(scores, 1).sigmoid()


class Pyramid(nn.Module):
    """A feature pyramid with enlarged coarse maps, and one head for all scales (RetinaNet)."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([conv(3, 16, 4, nn.ReLU), conv(16, 32, 2, nn.ReLU), conv(32, 64, 2, nn.ReLU)])
        self.sides = nn.ModuleList([nn.Conv2d(c, 32, 1) for c in (16, 32, 64)])
        self.head = nn.Sequential(conv(32, 32, 1, nn.ReLU), nn.Conv2d(32, 3 * 4, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        maps = []
        for stage in self.stages:
            maps.append(x := stage(x))
        y, found = None, []
        for side, m in zip(reversed(self.sides), reversed(maps), strict=True):
            y = side(m) if y is None else side(m) + functional.interpolate(y, scale_factor=2.0)
            found.append(self.head(y).flatten(2))
        return torch.cat(found, 2)


class Larger(nn.Module):
    """Super-resolution by the order of channels (ESPCN), added to a bilinear enlargement."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 27, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        enlarged = functional.interpolate(x, scale_factor=3.0, mode="bilinear", align_corners=False)
        return functional.pixel_shuffle(self.body(x), 3) + enlarged


class Speech(nn.Module):
    """Two convolutions over time, places, and layers of attention (the encoder of Whisper)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(80, 64, 3, padding=1), nn.Conv1d(64, 64, 3, 2, 1)
        self.places = nn.Parameter(0.1 * torch.randn(50, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 256, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers, self.norm = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.gelu(self.second(functional.gelu(self.first(x))))
        return self.norm(self.layers(y.transpose(1, 2) + self.places))


class Lines(nn.Module):
    """Convolutions, then a recurrent layer along the width (text recognition, CRNN)."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Sequential(conv(1, 16, 2, nn.ReLU), conv(16, 32, 2, nn.ReLU))
        self.layer, self.last = nn.LSTM(32 * 8, 32, batch_first=True, bidirectional=True), nn.Linear(64, 40)

    def forward(self, x: Tensor) -> Tensor:
        y = self.maps(x)
        return self.last(self.layer(y.flatten(1, 2).transpose(1, 2))[0]).log_softmax(-1)


class Step(nn.Module):
    """One step of GPT-2: a word and the keys and values of the words before; logits, and keys and values with it."""

    WORDS, WIDTH, HEADS, BEFORE, LAYERS = 500, 64, 4, 31, 2

    def __init__(self) -> None:
        super().__init__()
        width = self.WIDTH
        self.words, self.places = nn.Embedding(self.WORDS, width), nn.Embedding(64, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * self.LAYERS + 1)])
        self.into = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(self.LAYERS)])
        self.out = nn.ModuleList([nn.Linear(width, width) for _ in range(self.LAYERS)])
        self.wide = nn.ModuleList([nn.Linear(width, 4 * width) for _ in range(self.LAYERS)])
        self.narrow = nn.ModuleList([nn.Linear(4 * width, width) for _ in range(self.LAYERS)])

    def forward(self, word: Tensor, *before: Tensor) -> tuple[Tensor, ...]:
        x = self.words(word) + self.places.weight[self.BEFORE]
        caches: list[Tensor] = []
        for i in range(self.LAYERS):
            parts = self.into[i](self.norms[2 * i](x)).reshape(1, 1, 3, self.HEADS, -1).permute(2, 0, 3, 1, 4)
            keys, values = (torch.cat([before[2 * i + k], parts[k + 1]], 2) for k in (0, 1))
            y = functional.scaled_dot_product_attention(parts[0], keys, values)
            x = x + self.out[i](y.transpose(1, 2).reshape(1, 1, -1))
            x = x + self.narrow[i](functional.gelu(self.wide[i](self.norms[2 * i + 1](x)), approximate="tanh"))
            caches += [keys, values]
        return self.norms[-1](x) @ self.words.weight.T, *caches


_CACHE = Input((1, Step.HEADS, Step.BEFORE, Step.WIDTH // Step.HEADS))

OWN: dict[str, tuple[Callable[[], nn.Module], tuple[Input, ...]]] = {
    "yolo-like": (Yolo, (Input((1, 3, 160, 160)),)),
    "ssd-like": (Ssd, (Input((1, 3, 160, 160)),)),
    "unet": (Unet, (Input((1, 3, 96, 96)),)),
    "keywords": (Keywords, (Input((1, 1, 50, 10)),)),
    "lstm": (lambda: Recurrent(nn.LSTM), (Input((1, 20, 32)),)),
    "gru": (lambda: Recurrent(nn.GRU), (Input((1, 20, 32)),)),
    "bert-tiny": (Bert, (Input((1, 32, 64)),)),
    "deeplab": (DeepLab, (Input((1, 3, 96, 96)),)),
    "pose": (Pose, (Input((1, 3, 96, 96)),)),
    "face": (Face, (Input((1, 3, 128, 128)),)),
    "pyramid": (Pyramid, (Input((1, 3, 128, 128)),)),
    "super-resolution": (Larger, (Input((1, 3, 48, 48)),)),
    "speech": (Speech, (Input((1, 80, 100)),)),
    "lines": (Lines, (Input((1, 1, 32, 96)),)),
    "gpt2-tiny": (Step, (Input((1, 1), Step.WORDS), *[_CACHE] * (2 * Step.LAYERS))),
}
NAMES = (*TIMM, *OWN)


def build(name: str, weights: str = "") -> tuple[nn.Module, tuple[Input, ...]]:
    """Return the module, calibrated so that its outputs depend on its inputs, and its inputs."""
    torch.manual_seed(0)
    if name in TIMM:
        import timm

        inputs: tuple[Input, ...] = (Input((1, 3, 224, 224)),)
        real, settings = TIMM[name]
        module = timm.create_model(real, **settings)
    else:
        make, inputs = OWN[name]
        module = make()
    if weights:
        module.load_state_dict(torch.load(weights, weights_only=True))
        return module.eval(), inputs
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    module.train()
    with torch.no_grad():
        for norm in norms:
            norm.momentum = None
        if norms:
            module(torch.randn(4, *inputs[0].shape[1:]))
    return module.eval(), inputs
