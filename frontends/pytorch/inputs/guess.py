"""Guesses a module's inputs from its first layers if the user does not describe them: shapes to try, likeliest
first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from convert.errors import UsageError

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

SEQUENCES = (7, 16, 32, 64, 128, 256, 512, 1024, 77, 10, 12, 20, 50, 100)
"""Lengths of sequences to try."""

OTHER_SIZES = range(2, 513)
"""Heights and widths to search if forward runs at none of `SIZES`; a head may need any of them."""

BATCH = 2


@dataclass(frozen=True)
class Guess:
    """An example shape and dtype, with the dims that may be dynamic and their names.

    made_up: dims whose length no layer determines, with their names: they are dynamic if forward accepts other lengths.
    other_sizes: sizes of all made-up dims to search if forward runs at none of the usual ones.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    dynamic: Mapping[int, str]
    why: str
    made_up: Mapping[int, str] = field(default_factory=dict)
    other_sizes: range = range(0)

    def with_size(self, size: int) -> Guess:
        """Return the guess with this length for all made-up dims."""
        shape = tuple(size if place in self.made_up else length for place, length in enumerate(self.shape))
        return replace(self, shape=shape)

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
    found = [*_guess_from_config(module)]
    for path, layer, guesses_for in (*_sized_layers(module, _KNOWN), *_sized_layers(module, _NORMS)):
        # Weights in half or double precision take inputs of the same dtype.
        weights = next((w.dtype for w in layer.parameters() if w.is_floating_point()), None)
        for guess in guesses_for(layer):
            dtype = weights if weights and guess.dtype.is_floating_point else guess.dtype
            found.append(replace(guess, dtype=dtype, why=path or type(layer).__name__))
    if not found:
        raise UsageError(
            f"the inputs of this {type(module).__name__} cannot be inferred: no layer of it tells a size",
            hint="describe them, for instance --input x:float32[batch,3,224,224]",
        )
    yield from found


def _guess_from_config(module: nn.Module) -> Iterator[Guess]:
    """Yield the input size that timm's models declare."""
    for attribute in ("pretrained_cfg", "default_cfg"):
        config: Any = getattr(module, attribute, None)
        size = config.get("input_size") if isinstance(config, Mapping) else getattr(config, "input_size", None)
        if size and len(size) == 3:
            yield Guess((BATCH, *map(int, size)), torch.float32, {0: "batch"}, f"the module's {attribute}")
            return


_PICTURE = {2: "height", 3: "width"}
_VOLUME = {2: "depth", 3: "height", 4: "width"}


def _image_guesses(layer: nn.Conv2d | nn.ConvTranspose2d) -> Iterator[Guess]:
    channels = layer.in_channels
    # One channel is more often MNIST than ImageNet.
    sizes = (28, *(s for s in SIZES if s != 28)) if channels == 1 else SIZES
    for size in sizes:
        yield Guess((BATCH, channels, size, size), torch.float32, {0: "batch"}, "", _PICTURE, OTHER_SIZES)


def _signal_guesses(layer: nn.Conv1d | nn.ConvTranspose1d) -> Iterator[Guess]:
    for length in LENGTHS:
        yield Guess((BATCH, layer.in_channels, length), torch.float32, {0: "batch"}, "", {2: "length"})


def _volume_guesses(layer: nn.Conv3d | nn.ConvTranspose3d) -> Iterator[Guess]:
    for size in (16, 32, 64, 112, 8):
        yield Guess((BATCH, layer.in_channels, size, size, size), torch.float32, {0: "batch"}, "", _VOLUME)


def _feature_guesses(layer: nn.Linear | nn.Bilinear) -> Iterator[Guess]:
    features = layer.in_features if isinstance(layer, nn.Linear) else layer.in1_features
    yield Guess((BATCH, features), torch.float32, {0: "batch"}, "")
    yield from _sequence_guesses((features,))


def _sequence_guesses(
    features: tuple[int, ...], dtype: torch.dtype = torch.float32, batch_first: bool = True
) -> Iterator[Guess]:
    for length in SEQUENCES:
        if batch_first:
            yield Guess((BATCH, length, *features), dtype, {0: "batch"}, "", {1: "sequence"})
        else:
            yield Guess((length, BATCH, *features), dtype, {1: "batch"}, "", {0: "sequence"})


def _index_guesses(layer: nn.Module) -> Iterator[Guess]:
    yield from _sequence_guesses((), torch.int64)


def _recurrent_guesses(layer: nn.RNNBase) -> Iterator[Guess]:
    yield from _sequence_guesses((layer.input_size,), batch_first=layer.batch_first)


def _attention_guesses(layer: nn.MultiheadAttention | nn.TransformerEncoderLayer) -> Iterator[Guess]:
    attention = layer if isinstance(layer, nn.MultiheadAttention) else layer.self_attn
    yield from _sequence_guesses((attention.embed_dim,), batch_first=attention.batch_first)


def _cell_guess(layer: nn.RNNCellBase) -> Iterator[Guess]:
    yield Guess((BATCH, layer.input_size), torch.float32, {0: "batch"}, "")


def _norm_guesses(layer: nn.LayerNorm | nn.RMSNorm) -> Iterator[Guess]:
    yield Guess((BATCH, *layer.normalized_shape), torch.float32, {0: "batch"}, "")
    yield from _sequence_guesses(tuple(layer.normalized_shape))


def _channel_guesses(layer: Any) -> Iterator[Guess]:
    """Yield inputs of a normalization over channels: rows, signals, images and volumes, as far as it accepts them.

    An InstanceNorm1d would accept rows as a signal without a batch.
    """
    channels = layer.num_channels if isinstance(layer, nn.GroupNorm) else layer.num_features
    signal, picture, volume = {2: "length"}, _PICTURE, _VOLUME
    for sizes, made_up in (((), {}), ((256,), signal), ((32, 32), picture), ((16, 16, 16), volume)):
        if sizes or not isinstance(layer, nn.InstanceNorm1d):
            yield Guess((BATCH, channels, *sizes), torch.float32, {0: "batch"}, "", made_up)


_KNOWN: dict[type, Callable[[Any], Iterator[Guess]]] = {
    nn.Conv2d: _image_guesses,
    nn.ConvTranspose2d: _image_guesses,
    nn.Conv1d: _signal_guesses,
    nn.ConvTranspose1d: _signal_guesses,
    nn.Conv3d: _volume_guesses,
    nn.ConvTranspose3d: _volume_guesses,
    nn.Linear: _feature_guesses,
    nn.Bilinear: _feature_guesses,
    nn.Embedding: _index_guesses,
    nn.EmbeddingBag: _index_guesses,
    nn.RNNBase: _recurrent_guesses,
    nn.RNNCellBase: _cell_guess,
    nn.TransformerEncoderLayer: _attention_guesses,
}

_NORMS: dict[type, Callable[[Any], Iterator[Guess]]] = {
    nn.LayerNorm: _norm_guesses,
    nn.RMSNorm: _norm_guesses,
    nn.GroupNorm: _channel_guesses,
    **{getattr(nn, f"{kind}Norm{rank}d"): _channel_guesses for kind in ("Batch", "Instance") for rank in (1, 2, 3)},
}
"""Normalizations, which say less about an input than the layers above."""


def _sized_layers(
    module: nn.Module, table: Mapping[type, Callable[[Any], Iterator[Guess]]]
) -> list[tuple[str, nn.Module, Callable[[Any], Iterator[Guess]]]]:
    """Return the first layers that determine a size, with their guesses: at most three of different shapes; forward
    may call them in another order.
    """
    found: list[tuple[str, nn.Module, Callable[[Any], Iterator[Guess]]]] = []
    inside: list[str] = []
    for path, layer in module.named_modules():
        if any(path.startswith(f"{outer}.") for outer in inside):
            continue
        guesses_for = next((table[kind] for kind in table if isinstance(layer, kind)), None)
        if guesses_for is not None:
            if str(layer) not in [str(known) for _, known, _ in found]:
                found.append((path, layer, guesses_for))
            inside.append(path)
        if len(found) == 3:
            break
    return found
