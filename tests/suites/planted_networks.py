"""Small networks with random weights for `planted.py`: eight of different kinds, and eight that hide errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


class Vit(nn.Module):
    """A vision transformer: patches, a class token, two encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.head(self.encoder(x)[:, 0])


class Recurrent(nn.Module):
    """A bidirectional LSTM, a GRU, and a linear layer at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 12, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(24, 10, batch_first=True)
        self.out = nn.Linear(10, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(self.out(self.gru(self.lstm(x)[0])[0]), -1)


class Words(nn.Module):
    """Embeddings of tokens and positions, a transformer layer, the mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(12, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)
        self.out = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(12))
        return self.out(self.layer(x).mean(1))


class Detector(nn.Module):
    """A pyramid of two scales with boxes and scores."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU())
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.deep = nn.Sequential(nn.Conv2d(16, 24, 3, 1, 1), nn.LeakyReLU(0.1))
        self.merge = nn.Conv2d(40, 16, 1)
        self.boxes, self.scores = nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low = self.stem(image)
        high = self.deep(self.pool(low))
        up = nn.functional.interpolate(high, size=(16, 16), mode="bilinear", align_corners=False)
        x = self.merge(torch.cat([low, up], 1))
        boxes = self.boxes(x).flatten(2).transpose(1, 2)
        boxes = torch.cat([boxes[..., :2].sigmoid(), boxes[..., 2:].exp()], -1)
        return boxes, self.scores(x).flatten(2).transpose(1, 2).sigmoid()


def quantized() -> onnx.ModelProto:
    """Return a CNN in ONNX whose activations are quantized to eight bits and dequantized."""
    rng = np.random.default_rng(1)
    shapes = {"w1": (8, 1, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "w3": (8, 6), "b3": (6,)}
    content = {name: rng.normal(size=shape).astype(np.float32) / 3 for name, shape in shapes.items()}
    content |= {"s1": np.float32(0.05), "z1": np.uint8(128), "s2": np.float32(0.02), "z2": np.uint8(3)}
    make = helper.make_node
    nodes = [
        make("QuantizeLinear", ["image", "s1", "z1"], ["q1"]),
        make("DequantizeLinear", ["q1", "s1", "z1"], ["d1"]),
        make("Conv", ["d1", "w1", "b1"], ["c1"]),
        make("Relu", ["c1"], ["r1"]),
        make("QuantizeLinear", ["r1", "s2", "z2"], ["q2"]),
        make("DequantizeLinear", ["q2", "s2", "z2"], ["d2"]),
        make("Conv", ["d2", "w2", "b2"], ["c2"]),
        make("Relu", ["c2"], ["r2"]),
        make("GlobalAveragePool", ["r2"], ["p"]),
        make("Flatten", ["p"], ["f"]),
        make("Gemm", ["f", "w3", "b3"], ["scores"]),
    ]
    image = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["batch", 1, 16, 16])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["batch", 6])
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in content.items()]
    graph = helper.make_graph(nodes, "quantized", [image], [scores], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class Unet(nn.Module):
    """A U-Net with group norm, reflected borders and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 8, 3, padding=1, padding_mode="reflect")
        self.norm = nn.GroupNorm(2, 8)
        self.down = nn.AvgPool2d(2)
        self.middle = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = nn.functional.gelu(self.norm(self.first(image)))
        y = self.up(nn.functional.elu(self.middle(self.down(x))))
        return self.last(torch.cat([x, y], 1))


class Masked(nn.Module):
    """Logits, some of them masked with the smallest float32 number, as is usual."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.tensor([False, False, True, False, True, False])
        return self.scores(x).masked_fill(mask, torch.finfo(torch.float32).min)


class Stamped(nn.Module):
    """Times in seconds next to scores, in one output."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :2] * 1.7e9, torch.sigmoid(self.scores(x))], 1)


class Dead(nn.Module):
    """A dead activation: the output is a bias for every input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x) - 1e9))


class Decisions(nn.Module):
    """ArgMax of integers with many ties, and integers that float32 cannot represent."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(torch.round(x)).argmax(1), (x * 3.0 * 2.0**40).to(torch.int64)


class Tails(nn.Module):
    """Outputs near 0 next to 1 and large numbers: saturating functions, exponentials, differences."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 12)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = 12 * self.scores(x)
        centred = z - z.mean(1, keepdim=True)
        sums = torch.cat([z, centred.sum(1, keepdim=True), centred[:, :3] * 2.0**-20], 1)
        rest = torch.sigmoid(z), torch.exp(z / 8), torch.tanh(z) + 1, torch.relu(z), sums
        return z.softmax(1), z.log_softmax(1), *rest


class Padded(nn.Module):
    """Tokens, one of them padding, and the best of the scores of each, two of which are masked."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 8)
        self.scores = nn.Linear(8, 6)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.words(tokens).masked_fill((tokens == 77)[..., None], 0.0)
        mask = torch.tensor([False, True, False, False, True, False])
        return self.scores(x.flip(-1)).masked_fill(mask, -1e9).argmax(-1), x


class Buckets(nn.Module):
    """Numbers put into buckets, some into another bucket in float32, and a table row for each bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(7, 16), nn.Linear(16, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(torch.floor(x * 1000.1).abs().remainder(7.0).to(torch.int64)))


class Boxes(nn.Module):
    """Boxes in pixels next to scores near 0, in one output."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes, self.scores = nn.Linear(8, 4), nn.Linear(8, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.boxes(x).sigmoid() * 640, (self.scores(x) - 9.0).sigmoid()], 1)


def _fixture(name: str) -> Callable[[], nn.Module]:
    return lambda: torch.load(FIXTURES / name, weights_only=False).eval()


NETWORKS: dict[str, tuple[Callable[[], Any], str]] = {
    "cnn": (_fixture("mnist_cnn.pt"), "input:float32[batch,1,28,28]"),
    "super resolution": (_fixture("super_resolution.pt"), "input:float32[batch,1,h,w]"),
    "vit": (Vit, "image:float32[batch,3,32,32]"),
    "recurrent": (Recurrent, "x:float32[batch,9,6]"),
    "words": (Words, "tokens:int64[batch,12]"),
    "detector": (Detector, "image:float32[batch,3,32,32]"),
    "quantized": (quantized, "image:float32[batch,1,16,16]"),
    "unet": (Unet, "image:float32[batch,2,16,16]"),
    "masked": (Masked, "x:float32[batch,8]"),
    "stamped": (Stamped, "x:float32[batch,8]"),
    "dead": (Dead, "x:float32[batch,8]"),
    "decisions": (Decisions, "x:float32[batch,12]"),
    "tails": (Tails, "x:float32[batch,8]"),
    "padded": (Padded, "tokens:int64[batch,16]"),
    "buckets": (Buckets, "x:float32[batch,64]"),
    "boxes": (Boxes, "x:float32[batch,8]"),
}
"""Name → a function that builds the model, and its input."""

SMALL = ("masked", "stamped", "dead", "decisions", "tails", "padded", "buckets", "boxes")
"""Networks for a few kinds of defects; most defects do not apply to them."""

UNDECIDED = ("dead",)
"""Networks for which agreement proves nothing: a clean pair is INCONCLUSIVE."""


def build(name: str) -> Any:
    """Return the network, a module in eval mode or a ModelProto, with the same weights every time.

    Norms have statistics and scales that are not trivial.
    """
    torch.manual_seed(1)
    if name == "quantized":
        return quantized()
    module = NETWORKS[name][0]().eval()
    return module if name in ("cnn", "super resolution") else vary_weights(module)


def vary_weights(module: nn.Module) -> nn.Module:
    """Set statistics and scales of norms, and zero biases, to other values in place."""
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2.0)
            if isinstance(part, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)):
                part.weight.uniform_(0.5, 1.5)
                part.bias.normal_()
            for name, bias in part.named_parameters(recurse=False):
                if "bias" in name and not bias.any():
                    bias.normal_()
    return module
