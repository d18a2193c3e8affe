"""Turns calls with constant weights into layers of torch.nn: convolutions, linear layers, norms, embeddings, LSTMs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .program import Call, Statement, Value, Weight, all_statements, leaves, read_by, values_read

Path = tuple[str, ...]
RECURRENT = {"torch.lstm": ("nn.LSTM", 4), "torch.gru": ("nn.GRU", 3), "torch.rnn_tanh": ("nn.RNN", 1),
             "torch.rnn_relu": ("nn.RNN", 1)}  # fmt: skip
"""Functions of one recurrent layer, the equivalent class, and its number of gates."""


@dataclass(eq=False)
class Layer:
    """A layer of torch.nn: its class, its arguments by name, and its weights by PyTorch's parameter names."""

    kind: str
    arguments: dict[str, Any]
    weights: dict[str, Weight | torch.Tensor]
    data: list[Any]
    """The arguments of the call."""
    path: Path = ()
    sources: list[Weight] = field(default_factory=list)
    """The graph's weights that the layer's weights were computed from, if they are not the same."""

    def is_like(self, other: Layer) -> bool:
        """Return whether two calls are calls of the same layer."""
        if (self.kind, self.arguments, self.sources) != (other.kind, other.arguments, other.sources):
            return False
        return bool(self.sources) or self.weights == other.weights


def find_layers(block: Sequence[Statement]) -> dict[Path, Layer]:
    """Replace calls by layers, in place: such a call has the target `layer` and the layer's path as its first
    argument.
    """
    reads = Counter(x for statement in block for x in read_by(statement) if isinstance(x, Weight))
    weights = list(reads)
    makers = {v: s for s in all_statements(block) if isinstance(s, Call) for v in s.outputs}
    layers: dict[Path, Layer] = {}
    owned: dict[Weight, Layer] = {}
    for call in all_statements(block):
        if not isinstance(call, Call) or (found := _layer(call, makers)) is None:
            continue
        own = found.sources or [w for w in found.weights.values() if isinstance(w, Weight)]
        same = next((layers[p.path] for w in own if (p := owned.get(w)) is not None), None)
        if same is not None:
            if not same.is_like(found):
                continue
            found.path = same.path
        elif len(set(own)) < len(own):
            continue
        else:
            found.path = _place(found, call, own, weights, layers)
            layers[found.path] = found
            owned.update(dict.fromkeys(own, found))
        call.target, call.args, call.kwargs, call.function = "layer", [found.path, *found.data], {}, None
        call.states = found.kind in ("nn.LSTM", "nn.GRU", "nn.RNN")
    return layers


def _place(layer: Layer, call: Call, own: list[Weight], weights: Sequence[Weight], layers: dict[Path, Layer]) -> Path:
    """Return the first free path for a layer: that of the module that the graph names, or of its weights' module."""
    others = [tuple(w.place.split(".")) for w in weights if w not in own]
    taken = [*others, *layers]

    def is_free(path: Path) -> bool:
        apart = all(p[: len(path)] != path and path[: len(p)] != p for p in taken)
        return bool(path) and apart

    places = [tuple(w.place.split(".")) for w in own]
    first = places[0] if places else call.path
    stem = re.sub(r"[._]?(weight|kernel|gamma|scale|embeddings?|W)$", "", first[-1]) if first else ""
    stem = re.sub(r"^onnx__.*|^\d+$", "", stem)
    parents = {p[:-1] for p in places}
    candidates = [call.path, first[:-1]]
    if len(parents) == 1 and len(first) > 1 and first[-2] not in ("weight", "kernel"):
        candidates.reverse()
    if stem:
        candidates.append((*first[:-1], stem))
    candidates = [call.path] if layer.sources else candidates
    for path in candidates:
        if is_free(path):
            return path
    base = call.path or ((*first[:-1],) if not layer.sources else first[:-2])
    number, name = 1, layer.kind.removeprefix("nn.").lower()
    while not is_free((*base, f"{name}{number}")):
        if base and any(base[: len(p)] == p for p in taken):
            base = base[:-1]
            continue
        number += 1
    return (*base, f"{name}{number}")


def _layer(call: Call, makers: Mapping[Value, Call]) -> Layer | None:
    name = call.target.rpartition(".")[2]
    if call.target in RECURRENT:
        return recurrent_layer(call, makers)
    function = _LAYERS.get(name) if call.target.startswith(("torch.nn.functional.", "torch.")) else None
    return function(call) if function is not None else None


def _weight(x: Any, rank: int | None = None) -> bool:
    return isinstance(x, Weight) and (rank is None or x.fake.dim() == rank)


def _arguments(call: Call, names: Sequence[str]) -> list[Any]:
    """Return the arguments of a call by position; None for those that are not given."""
    found = [*call.args, *[None] * (len(names) - len(call.args))]
    return [call.kwargs.get(name, value) for name, value in zip(names, found, strict=False)]


def _optional(**named: Any) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None}


def _one(numbers: Any, rank: int, plain: Any) -> Any:
    """Return a single number if all are equal; None if it is the default."""
    many = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers] * rank
    same = len(set(many)) == 1
    return None if same and many[0] == plain else many[0] if same else tuple(many)


def _conv(call: Call) -> Layer | None:
    x, w, b, stride, padding, dilation, groups = _arguments(
        call, ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    )
    rank = int(call.target[-2])
    if not _weight(w, rank + 2) or not w.parameter or (b is not None and not _weight(b, 1)):
        return None
    out, inner, *kernel = w.fake.shape
    groups = 1 if groups is None else groups
    arguments = {"in_channels": inner * groups, "out_channels": out, "kernel_size": _one(kernel, rank, None)}
    arguments |= _optional(
        stride=_one(1 if stride is None else stride, rank, 1), padding=_one(0 if padding is None else padding, rank, 0),
        dilation=_one(1 if dilation is None else dilation, rank, 1), groups=None if groups == 1 else groups,
        bias=None if b is not None else False,
    )  # fmt: skip
    return Layer(f"nn.Conv{rank}d", arguments, _optional(weight=w, bias=b), [x])


def _conv_transpose(call: Call) -> Layer | None:
    x, w, b, stride, padding, extra, groups, dilation = _arguments(
        call, ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
    )
    rank = int(call.target[-2])
    if not _weight(w, rank + 2) or not w.parameter or (b is not None and not _weight(b, 1)):
        return None
    inner, out, *kernel = w.fake.shape
    groups = 1 if groups is None else groups
    arguments = {"in_channels": inner, "out_channels": out * groups, "kernel_size": _one(kernel, rank, None)}
    arguments |= _optional(
        stride=_one(1 if stride is None else stride, rank, 1), padding=_one(0 if padding is None else padding, rank, 0),
        output_padding=_one(0 if extra is None else extra, rank, 0), groups=None if groups == 1 else groups,
        bias=None if b is not None else False, dilation=_one(1 if dilation is None else dilation, rank, 1),
    )  # fmt: skip
    return Layer(f"nn.ConvTranspose{rank}d", arguments, _optional(weight=w, bias=b), [x])


def _linear(call: Call) -> Layer | None:
    x, w, b = _arguments(call, ("input", "weight", "bias"))
    if not _weight(w, 2) or not w.parameter or (b is not None and not _weight(b, 1)):
        return None
    arguments = {"in_features": w.fake.shape[1], "out_features": w.fake.shape[0]}
    return Layer("nn.Linear", arguments | _optional(bias=None if b is not None else False),
                 _optional(weight=w, bias=b), [x])  # fmt: skip


def _batch_norm(call: Call) -> Layer | None:
    x, mean, var, w, b, training, momentum, eps = _arguments(
        call, ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    )
    ranks = {2: "1d", 3: "1d", 4: "2d", 5: "3d"}
    if training or not all(_weight(v, 1) for v in (mean, var, w, b)) or x.fake.dim() not in ranks:
        return None
    if any(v.fake.dtype != x.fake.dtype for v in (mean, var, w, b)):
        return None
    weights = {"weight": w, "bias": b, "running_mean": mean, "running_var": var}
    arguments = {"num_features": w.fake.shape[0]} | _epsilon(eps, x)
    arguments |= _optional(momentum=None if momentum == 0.1 else momentum)
    return Layer(f"nn.BatchNorm{ranks[x.fake.dim()]}", arguments, weights, [x])


def _epsilon(eps: float, x: Value) -> dict[str, float]:
    """Return the epsilon argument of a norm unless it is PyTorch's 1e-5. ONNX has a float32, which differs from 1e-5 in
    float64 only.
    """
    kind = torch.float64 if x.fake.dtype == torch.float64 else torch.float32
    return {} if torch.tensor(eps, dtype=kind) == torch.tensor(1e-5, dtype=kind) else {"eps": eps}


def _layer_norm(call: Call) -> Layer | None:
    x, shape, w, b, eps = _arguments(call, ("input", "normalized_shape", "weight", "bias", "eps"))
    if not _weight(w) or (b is not None and not _weight(b)):
        return None
    dims = list(shape)
    arguments: dict[str, Any] = {"normalized_shape": dims[0] if len(dims) == 1 else tuple(dims)}
    arguments |= _epsilon(eps, x) | _optional(bias=None if b is not None else False)
    return Layer("nn.LayerNorm", arguments, _optional(weight=w, bias=b), [x])


def _group_norm(call: Call) -> Layer | None:
    x, groups, w, b, eps = _arguments(call, ("input", "num_groups", "weight", "bias", "eps"))
    if not _weight(w, 1) or not _weight(b, 1):
        return None
    arguments = {"num_groups": groups, "num_channels": w.fake.shape[0]}
    return Layer("nn.GroupNorm", arguments | _epsilon(eps, x),
                 {"weight": w, "bias": b}, [x])  # fmt: skip


def _embedding(call: Call) -> Layer | None:
    x, w = _arguments(call, ("input", "weight"))
    if not _weight(w, 2) or not w.parameter:
        return None
    arguments = {"num_embeddings": w.fake.shape[0], "embedding_dim": w.fake.shape[1]}
    return Layer("nn.Embedding", arguments, {"weight": w}, [x])


def _prelu(call: Call) -> Layer | None:
    x, w = _arguments(call, ("input", "weight"))
    if not _weight(w, 1) or not w.parameter:
        return None
    return Layer("nn.PReLU", {"num_parameters": w.fake.shape[0]}, {"weight": w}, [x])


_LAYERS: dict[str, Callable[[Call], Layer | None]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose),
    "linear": _linear, "batch_norm": _batch_norm, "layer_norm": _layer_norm, "group_norm": _group_norm,
    "embedding": _embedding, "prelu": _prelu,
}  # fmt: skip


# -- recurrent layers --------------------------------------------------------------------------------------------------


def recurrent_layer(call: Call, makers: Mapping[Value, Call]) -> Layer | None:
    """Return the layer for a call of `torch.lstm`, `gru` or `rnn` whose weights are reordered constants.

    Initial states that are zeros are left out. Returns None if the call is no such layer.
    """
    kind, gates = RECURRENT[call.target]
    x, hx, params, has_biases, _, _, _, bidirectional, _ = call.args
    sources: list[Weight] = []
    contents = [_folded(p, makers, sources) for p in params]
    if any(c is None for c in contents):
        return None
    directions = 2 if bidirectional else 1
    names = [f"{kind_}_l0{'_reverse' * d}" for d in range(directions)
             for kind_ in ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if has_biases else ()))]  # fmt: skip
    weights = {n: torch.nn.Parameter(c.clone()) for n, c in zip(names, contents, strict=True) if c is not None}
    first = weights["weight_ih_l0"]
    arguments: dict[str, Any] = {"input_size": first.shape[1], "hidden_size": first.shape[0] // gates}
    if call.target == "torch.rnn_relu":
        arguments["nonlinearity"] = "relu"
    arguments |= _optional(bias=None if has_biases else False, bidirectional=True if bidirectional else None)
    states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
    data = [x] if all(_is_zero(s, makers) for s in states) else [x, hx]
    return Layer(kind, arguments, dict(weights), data, sources=list(dict.fromkeys(sources)))


def _folded(x: Any, makers: Mapping[Value, Call], sources: list[Weight]) -> torch.Tensor | None:
    """Return the content of a value that is computed from weights only, else None."""
    if isinstance(x, Weight):
        sources.append(x)
        return x.content.detach() if x.content is not None else None
    call = makers.get(x)
    if call is None or call.function is None:
        return None
    values = [v for v in leaves((call.args, call.kwargs)) if isinstance(v, Value)]
    found = {v: _folded(v, makers, sources) for v in values}
    if not found or any(c is None for c in found.values()):
        return None

    def content(tree: Any) -> Any:
        if isinstance(tree, (list, tuple)):
            return type(tree)(map(content, tree))
        return found.get(tree, tree) if isinstance(tree, Value) else tree

    made = call.function(*content(call.args), **{k: content(v) for k, v in call.kwargs.items()})
    return made[call.outputs.index(x)] if call.several else made


_VIEWS = ("split", "contiguous", "reshape", "transpose", "permute", "expand", "__getitem__", "select", "clone")


def _is_zero(x: Any, makers: Mapping[Value, Call]) -> bool:
    """Return whether a value consists of zeros."""
    call = makers.get(x)
    if call is None:
        return False
    name = call.target.rpartition(".")[2]
    if name == "full":
        return isinstance(call.args[1], (int, float)) and call.args[1] == 0
    return name in ("new_zeros", "zeros", "zeros_like") or (name in _VIEWS and _is_zero(call.args[0], makers))


def drop_dead(block: list[Statement], wanted: Sequence[Any], symbols: Mapping[Any, Value]) -> None:
    """Remove calls whose results are not read."""
    while True:
        read = {x for statement in block for x in values_read(statement, symbols)} | set(wanted)
        if not _drop(block, read):
            return


def _drop(block: list[Statement], read: set[Value]) -> bool:
    kept, changed = [], False
    for statement in block:
        if isinstance(statement, Call) and statement.outputs and not any(v in read for v in statement.outputs):
            changed = True
            continue
        for inner in getattr(statement, "then", []), getattr(statement, "other", []), getattr(statement, "block", []):
            changed |= bool(inner) and _drop(inner, read)
        kept.append(statement)
    block[:] = kept
    return changed
