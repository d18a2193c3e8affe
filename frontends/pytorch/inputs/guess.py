"""Guesses a module's inputs from its first layers if the user does not describe them: shapes to try, likeliest
first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from convert.errors import UsageError

from ..torch_internals import own_parameters

SIZES = (
    224,
    32,
    28,
    64,
    96,
    299,
    128,
    256,
    384,
    16,
    48,
    112,
    160,
    192,
    240,
    288,
    320,
    331,
    336,
    448,
    512,
    40,
    56,
    80,
    100,
    8,
)
"""Heights and widths to try: ImageNet's, CIFAR's, MNIST's, then other common ones."""

LENGTHS = (256, 64, 1024, 4096, 16000, 128, 512, 32, 100, 1000, 16)
"""Lengths of signals to try."""

BATCH, SEQUENCE = 2, 7


@dataclass(frozen=True)
class Guess:
    """An example shape and dtype, with the dims that may be dynamic and their names.

    made_up: dims whose length no layer determines, with their names: they are dynamic if forward accepts other lengths.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    dynamic: Mapping[int, str]
    why: str
    made_up: Mapping[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        dims = ",".join(self.dynamic.get(i, str(d)) for i, d in enumerate(self.shape))
        return f"{str(self.dtype).removeprefix('torch.')}[{dims}]"


def parameters_of(module: nn.Module) -> list[inspect.Parameter]:
    """Return the parameters of forward."""
    return list(inspect.signature(module.forward).parameters.values())


def required_names(module: nn.Module) -> list[str]:
    """Return the names of forward's parameters that a call must pass."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [p.name for p in parameters_of(module) if p.default is inspect.Parameter.empty and p.kind not in kinds]
    if names:
        return names
    # An input that is always passed may still have a default (`input_ids=None`).
    return [p.name for p in parameters_of(module) if p.kind not in kinds][:1]


def guesses(module: nn.Module) -> Iterator[Guess]:
    """Yield shapes for a module with one input. Raises `UsageError` if no layer shows anything."""
    found = False
    for guess in _guess_from_config(module):
        found = True
        yield guess
    for path, layer in _sized_layers(module):
        found = True
        kind = _kind(layer)
        assert kind is not None
        for guess in _KNOWN[kind](layer):
            # Weights in half or double precision take inputs of the same dtype.
            weights = next((w.dtype for w in layer.parameters() if w.is_floating_point()), guess.dtype)
            dtype = weights if guess.dtype.is_floating_point else guess.dtype
            yield Guess(
                guess.shape,
                dtype,
                _dynamic_dims(module, layer, guess),
                path or type(layer).__name__,
                guess.made_up,
            )
    if not found:
        raise UsageError(
            f"the inputs of this {type(module).__name__} cannot be inferred: no layer of it tells a size",
            hint="describe them, for instance --input x:float32[batch,3,224,224]",
        )


def _guess_from_config(module: nn.Module) -> Iterator[Guess]:
    """Yield the input size that timm's models declare."""
    for attribute in ("pretrained_cfg", "default_cfg"):
        config: Any = getattr(module, attribute, None)
        size = config.get("input_size") if isinstance(config, Mapping) else getattr(config, "input_size", None)
        if size and len(size) == 3:
            yield Guess((BATCH, *map(int, size)), torch.float32, {0: "batch"}, f"the module's {attribute}")
            return


def _image_guesses(layer: nn.Conv2d | nn.ConvTranspose2d) -> Iterator[Guess]:
    channels = layer.in_channels
    # One channel is more often MNIST than ImageNet.
    sizes = (28, *(s for s in SIZES if s != 28)) if channels == 1 else SIZES
    for size in sizes:
        yield Guess((BATCH, channels, size, size), torch.float32, {0: "batch"}, "")


def _signal_guesses(layer: nn.Conv1d | nn.ConvTranspose1d) -> Iterator[Guess]:
    for length in LENGTHS:
        yield Guess((BATCH, layer.in_channels, length), torch.float32, {0: "batch"}, "", {2: "length"})


def _volume_guesses(layer: nn.Conv3d | nn.ConvTranspose3d) -> Iterator[Guess]:
    for size in (16, 32, 64, 112, 8):
        yield Guess((BATCH, layer.in_channels, size, size, size), torch.float32, {0: "batch"}, "")


def _feature_guesses(layer: nn.Linear | nn.Bilinear) -> Iterator[Guess]:
    features = layer.in_features if isinstance(layer, nn.Linear) else layer.in1_features
    yield Guess((BATCH, features), torch.float32, {0: "batch"}, "")
    yield Guess((BATCH, SEQUENCE, features), torch.float32, {0: "batch"}, "", {1: "sequence"})


def _index_guess(layer: nn.Module) -> Iterator[Guess]:
    yield Guess((BATCH, SEQUENCE), torch.int64, {0: "batch", 1: "sequence"}, "")


def _recurrent_guess(layer: nn.RNNBase) -> Iterator[Guess]:
    first = layer.batch_first
    shape = (BATCH, SEQUENCE, layer.input_size) if first else (SEQUENCE, BATCH, layer.input_size)
    yield Guess(shape, torch.float32, {0 if first else 1: "batch"}, "", {1 if first else 0: "sequence"})


def _attention_guess(layer: nn.MultiheadAttention | nn.TransformerEncoderLayer) -> Iterator[Guess]:
    attention = layer if isinstance(layer, nn.MultiheadAttention) else layer.self_attn
    first = attention.batch_first
    shape = (BATCH, SEQUENCE, attention.embed_dim) if first else (SEQUENCE, BATCH, attention.embed_dim)
    yield Guess(shape, torch.float32, {0 if first else 1: "batch"}, "", {1 if first else 0: "sequence"})


def _batch_norm_guess(layer: nn.BatchNorm2d) -> Iterator[Guess]:
    yield Guess((BATCH, layer.num_features, 32, 32), torch.float32, {0: "batch"}, "")


_KNOWN: dict[type, Callable[[Any], Iterator[Guess]]] = {
    nn.Conv2d: _image_guesses,
    nn.ConvTranspose2d: _image_guesses,
    nn.Conv1d: _signal_guesses,
    nn.ConvTranspose1d: _signal_guesses,
    nn.Conv3d: _volume_guesses,
    nn.ConvTranspose3d: _volume_guesses,
    nn.Linear: _feature_guesses,
    nn.Bilinear: _feature_guesses,
    nn.Embedding: _index_guess,
    nn.RNNBase: _recurrent_guess,
    nn.TransformerEncoderLayer: _attention_guess,
    nn.BatchNorm2d: _batch_norm_guess,
}


def _kind(layer: nn.Module) -> type | None:
    return next((kind for kind in _KNOWN if isinstance(layer, kind)), None)


def _sized_layers(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the first layers that determine a size, at most three of different shapes; forward may call them in
    another order.
    """
    found: list[tuple[str, nn.Module]] = []
    inside: list[str] = []
    for path, layer in module.named_modules():
        if any(path.startswith(f"{outer}.") for outer in inside):
            continue
        if _kind(layer) is not None:
            if str(layer) not in [str(known) for _, known in found]:
                found.append((path, layer))
            inside.append(path)
        if len(found) == 3:
            break
    return found


def _dynamic_dims(module: nn.Module, layer: nn.Module, guess: Guess) -> dict[int, str]:
    """Return the batch; height and width too if every layer is convolutional, so that no size is fixed."""
    dynamic = dict(guess.dynamic)
    if len(guess.shape) == 4 and isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)) and _is_fully_convolutional(module):
        dynamic |= {2: "height", 3: "width"}
    return dynamic


_ANY_SIZE = (
    "Conv2d",
    "ConvTranspose2d",
    "BatchNorm2d",
    "InstanceNorm2d",
    "GroupNorm",
    "MaxPool2d",
    "AvgPool2d",
    "PixelShuffle",
    "PixelUnshuffle",
    "Upsample",
    "UpsamplingNearest2d",
    "UpsamplingBilinear2d",
    "Dropout",
    "Dropout2d",
    "Identity",
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "PReLU",
    "ELU",
    "SELU",
    "GELU",
    "SiLU",
    "Mish",
    "Hardswish",
    "Hardsigmoid",
    "Hardtanh",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "ZeroPad2d",
    "ReflectionPad2d",
    "ReplicationPad2d",
    "ConstantPad2d",
    "LogSigmoid",
    "Softmax2d",
    "ChannelShuffle",
    "LocalResponseNorm",
)


def _is_fully_convolutional(module: nn.Module) -> bool:
    leaves = [m for m in module.modules() if not any(True for _ in m.children())]
    containers = [m for m in module.modules() if any(True for _ in m.children())]
    own = any(own_parameters(m) for m in containers)
    return not own and all(type(m).__name__ in _ANY_SIZE and type(m).__module__.startswith("torch.nn") for m in leaves)
