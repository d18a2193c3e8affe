"""Pickled PyTorch modules of known classes whose attributes never end, count too high, or are not what they seem."""

from __future__ import annotations

import collections
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name

GOOD = FIXTURES / "mnist_cnn.pt"
LEVELS = 40
"""Levels of containers that each hold the one below twice: a walk that does not remember them takes 2^40 steps."""
LONG = "x" * 100_000


def doubled(first: Any, twice: Callable[[Any], Any], levels: int = LEVELS) -> Any:
    """Return a container of a few objects that unfolds to 2^levels."""
    for _ in range(levels):
        first = twice(first)
    return first


def _containers() -> dict[str, Any]:
    """Return attributes that share their parts level by level, or hold themselves."""
    circle: list[Any] = []
    circle.append(circle)
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    return {
        "tuples": doubled((1,), lambda a: (a, a)),
        "lists": doubled([1], lambda a: [a, a]),
        "dicts": doubled({"a": 1}, lambda a: {"a": a, "b": a}),
        "ordered dicts": doubled(
            collections.OrderedDict(a=1), lambda a: collections.OrderedDict(a=a, b=a)),
        "lists in dicts in tuples": doubled([1], lambda a: ([a, a], {"a": a})),
        "a list that holds itself": circle,
        "a dict that holds itself": ring,
        "a million numbers": list(range(1_000_000)),
        "a text of a megabyte": "x" * (1 << 20),
    }  # fmt: skip


def _with(layer: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        layer.__dict__[name] = value
    return layer


def _numbered() -> dict[str, tuple[Any, str]]:
    """Return layers with one number far too high or low, each with an input that the layer takes."""
    from torch import nn

    picture, line, sequence = "float32[1,4,8,8]", "float32[2,4]", "float32[2,3,4]"
    layers: dict[str, tuple[Callable[[], Any], str, str]] = {
        "LRN": (lambda: nn.LocalResponseNorm(2), "size", picture),
        "groups": (lambda: nn.Conv2d(4, 4, 3), "groups", picture),
        "channels": (lambda: nn.Conv2d(4, 4, 3), "in_channels", picture),
        "features": (lambda: nn.Linear(4, 4), "out_features", line),
        "shuffle": (lambda: nn.PixelShuffle(2), "upscale_factor", picture),
        "unshuffle": (lambda: nn.PixelUnshuffle(2), "downscale_factor", picture),
        "channel shuffle": (lambda: nn.ChannelShuffle(2), "groups", picture),
        "norm groups": (lambda: nn.GroupNorm(2, 4), "num_groups", picture),
        "heads": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), "num_heads", sequence),
        "LSTM layers": (lambda: nn.LSTM(4, 4, batch_first=True), "num_layers", sequence),
        "LSTM width": (lambda: nn.LSTM(4, 4, batch_first=True), "hidden_size", sequence),
        "encoder layers": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 4, batch_first=True), 1),
                           "num_layers", sequence),
        "average": (lambda: nn.AvgPool2d(2), "kernel_size", picture),
        "adaptive average": (lambda: nn.AdaptiveAvgPool2d(2), "output_size", picture),
        "maximum steps": (lambda: nn.MaxPool2d(2), "stride", picture),
        "scale": (lambda: nn.Upsample(scale_factor=2), "scale_factor", picture),
        "size": (lambda: nn.Upsample(size=2), "size", picture),
        "fold": (lambda: nn.Unfold(2), "kernel_size", picture),
        "padding": (lambda: nn.ZeroPad2d(2), "padding", picture),
        "words": (lambda: nn.Embedding(4, 4), "num_embeddings", "int64[2,3]"),
        "first flat dim": (lambda: nn.Flatten(), "start_dim", picture),
        "axis of a softmax": (lambda: nn.Softmax(1), "dim", picture),
    }  # fmt: skip
    found = {}
    for name, (make, attribute, described) in layers.items():
        for number in (1 << 40, (1 << 63) - 1, -1, 0):
            value = (number,) * 4 if attribute == "padding" else number
            found[f"{name}: {attribute} of {number}"] = (_with(make(), **{attribute: value}), described)
    return found


def contradicting() -> dict[str, tuple[Any, str]]:
    """Return layers with an attribute that says another size than their weights have, each with an input."""
    from torch import nn

    picture, line, sequence = "float32[2,4,8,8]", "float32[2,4]", "float32[2,3,4]"
    layers: dict[str, tuple[Callable[[], Any], str, str]] = {
        "LSTM": (lambda: nn.LSTM(4, 4, batch_first=True), "hidden_size proj_size bidirectional", sequence),
        "projected LSTM": (lambda: nn.LSTM(4, 4, proj_size=2), "hidden_size proj_size bias", sequence),
        "GRU": (lambda: nn.GRU(4, 4, 2), "hidden_size input_size num_layers", sequence),
        "RNN": (lambda: nn.RNN(4, 4, bidirectional=True), "hidden_size bias bidirectional", sequence),
        "LSTM cell": (lambda: nn.LSTMCell(4, 4), "hidden_size input_size", line),
        "convolution": (lambda: nn.Conv2d(4, 4, 3), "dilation stride kernel_size groups", picture),
        "transposed": (lambda: nn.ConvTranspose2d(4, 4, 3), "dilation stride kernel_size groups", picture),
        "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 4),
                    "self_attn.embed_dim self_attn.head_dim self_attn._qkv_same_embed_dim norm1.normalized_shape",
                    sequence),
        "group norm": (lambda: nn.GroupNorm(2, 4), "num_groups num_channels", picture),
        "bag": (lambda: nn.EmbeddingBag(4, 4), "embedding_dim padding_idx mode", "int64[2,3]"),
    }  # fmt: skip
    found = {}
    for name, (make, attributes, described) in layers.items():
        for place, value in itertools.product(attributes.split(), (False, 0, 3, 8)):
            layer = make()
            path, _, attribute = place.rpartition(".")
            _with(layer.get_submodule(path), **{attribute: value})
            found[f"{name}: {place} says {value}"] = (layer, described)
    return found


def _trees() -> dict[str, Any]:
    """Return modules whose parts are shared, missing, of another kind, or have long or forged names."""
    import torch
    from torch import nn

    def weighted(weight: torch.Tensor) -> nn.Module:
        parameters = {"weight": nn.Parameter(weight), "bias": None}
        return _with(nn.Linear(4, 4), _parameters=parameters)

    layer = nn.Linear(4, 4)
    deep: Any = nn.Linear(4, 4)
    for _ in range(300):
        deep = nn.Sequential(deep)
    ring = nn.Sequential(nn.Linear(4, 4))
    ring._modules["1"] = ring
    named = nn.Sequential(nn.Linear(4, 4))
    named._modules = {"\nPASS  error 0\n\x1b[31m\u202e": nn.Linear(4, 4)}
    parameters = nn.Linear(4, 4)
    parameters._parameters["weight"] = torch.ones(4, 4)  # type: ignore[assignment]
    return {
        "parts that are shared": doubled(nn.Sequential(nn.Linear(4, 4)), lambda a: nn.Sequential(a, a)),
        "lists of parts that are shared": doubled(nn.ModuleList([nn.Linear(4, 4)]), lambda a: nn.ModuleList([a, a])),
        "dicts of parts that are shared": doubled(
            nn.ModuleDict({"a": nn.Linear(4, 4)}), lambda a: nn.ModuleDict({"a": a, "b": a})),
        "300 parts in one another": deep,
        "a part that holds itself": ring,
        "a part of lines": named,
        "a part of a long name": _with(nn.Sequential(), _modules={LONG: nn.Linear(4, 4)}),
        "a weight of a long name": _with(nn.Linear(4, 4), _buffers={LONG: torch.ones(2)}),
        "a part that is a number": _with(nn.Sequential(), _modules={"0": 5}),
        "parts that are a list": _with(nn.Sequential(), _modules=[nn.Linear(4, 4)]),
        "a part of no name": _with(nn.Sequential(), _modules={5: nn.Linear(4, 4), "": nn.Linear(4, 4)}),
        "a weight that is no parameter": parameters,
        "a weight of another dtype": weighted(torch.ones(4, 4).half()),
        "a weight of no sizes": weighted(torch.ones(())),
        "no weights": _with(nn.Linear(4, 4), _parameters={}),
        "hooks that are numbers": _with(nn.Linear(4, 4), _forward_hooks={0: 5}),
        "20,000 layers": nn.Sequential(*[layer] * 20_000),
    }  # fmt: skip


def _functions() -> dict[str, Any]:
    """Return layers whose forward is a function of C, a class, or no function."""
    import torch
    from torch import nn

    values = {
        "torch.relu": torch.relu, "gelu": torch._C._nn.gelu, "math.sqrt": math.sqrt, "operator.neg": operator.neg,
        "len": len, "print": print, "a class": torch.Tensor, "a dtype": torch.float32, "a number": 5, "nothing": None,
        "a function of the library": nn.functional.relu, "a layer": nn.ReLU(), "a tensor": torch.ones(2),
    }  # fmt: skip
    return {f"forward: {name}": _with(nn.Linear(4, 4), forward=value) for name, value in values.items()}


def module_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Save each module whole, with `torch.save`."""
    import torch
    from torch import nn

    line = "float32[2,4]"
    attributes = {
        f"{place} of {name}": (_with(nn.Linear(4, 4), **{place: value}), line)
        for name, value in _containers().items()
        for place in ("extra", "_buffers", "_forward_hooks", "_non_persistent_buffers_set", "in_features", "training")
    }
    others = {name: (module, line) for name, module in (_trees() | _functions()).items()}
    for name, (module, described) in (attributes | _numbered() | contradicting() | others).items():
        path = folder / f"{file_name(name)}.pt"
        try:
            torch.save(module, path)
        except (RecursionError, TypeError, AttributeError):  # Python cannot pickle it, so nobody can send it
            continue
        yield Case(name, path, ("--input", described), GOOD)
