"""Makes calls look as a person writes them.

Defaults are dropped, equal numbers become one, and functions in a list become modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .layers import Layer, Path
from .program import Call, Literal, Size, Statement, all_statements

_DEFAULTS: dict[str, Any] = {
    "inplace": False, "ceil_mode": False, "return_indices": False, "attn_mask": None, "scale": None,
    "approximate": "none", "is_causal": False, "count_include_pad": True, "divisor_override": None, "out": None,
}  # fmt: skip
_REDUCTIONS = ("mean", "sum", "amax", "amin", "logsumexp", "prod", "argmax", "argmin")


def tidy(block: Sequence[Statement]) -> None:
    """Rewrite the calls of a block and of the blocks in it, in place."""
    for call in all_statements(block):
        if isinstance(call, Call):
            _tidy(call)


def _tidy(call: Call) -> None:
    name = call.target.rpartition(".")[2]
    if call.target.startswith("torch.nn.functional."):
        call.kwargs = {k: v for k, v in call.kwargs.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    if "pool" in name or name.startswith("conv"):
        _tidy_window(call)
    if name in _REDUCTIONS and call.target.startswith("torch."):
        _tidy_reduction(call)
    if call.target == "torch.full" and call.kwargs.get("dtype") == torch.float32 and _is_number(call.args[1], 0, 1):
        call.target = "torch.zeros" if call.args[1] == 0 else "torch.ones"
        call.args, call.kwargs = [call.args[0]], {}
    if name == "permute" and len(call.args) == 2 and isinstance(call.args[1], (list, tuple)):
        moved = [i for i, axis in enumerate(call.args[1]) if i != axis]
        if len(moved) == 2:
            call.target, call.args = "torch.Tensor.transpose", [call.args[0], *moved]
    if call.target == "torch.Tensor.select" and isinstance(call.args[1], int) and call.args[1] >= 0:
        x, axis, place = call.args
        call.target, call.args = "torch.Tensor.__getitem__", [x, (*[slice(None)] * axis, place)]


def _is_number(x: Any, *numbers: int) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and x in numbers


def _tidy_window(call: Call) -> None:
    """Replace a window, stride or pad that is equal along all axes by a single number."""

    def one(x: Any) -> Any:
        equal = isinstance(x, (list, tuple)) and len(set(map(str, x))) == 1 and all(type(n) is int for n in x)
        return x[0] if equal else x

    call.args = [call.args[0], *map(one, call.args[1:])] if "pool" in call.target else call.args
    call.kwargs = {k: one(v) for k, v in call.kwargs.items()}
    plain = {"padding": 0, "dilation": 1, "stride": call.args[1] if len(call.args) > 1 else None}
    if "pool" in call.target:
        call.kwargs = {k: v for k, v in call.kwargs.items() if k not in plain or v != plain[k]}


def _tidy_reduction(call: Call) -> None:
    args = list(call.args)
    keep = args.pop() if len(args) == 3 and isinstance(args[2], bool) else False
    if keep:
        call.kwargs = {**call.kwargs, "keepdim": True}
    if len(args) == 2 and isinstance(args[1], list):
        args[1] = args[1][0] if len(args[1]) == 1 else tuple(args[1])
    call.args = args


_MODULES: dict[str, tuple[str, Callable[[Call], dict[str, Any] | None]]] = {
    "relu": ("nn.ReLU", lambda call: {}),
    "gelu": ("nn.GELU", lambda call: dict(call.kwargs)),
    "silu": ("nn.SiLU", lambda call: {}),
    "sigmoid": ("nn.Sigmoid", lambda call: {}),
    "tanh": ("nn.Tanh", lambda call: {}),
    "hardswish": ("nn.Hardswish", lambda call: {}),
    "mish": ("nn.Mish", lambda call: {}),
    "leaky_relu": ("nn.LeakyReLU", lambda call: _given(call, ("negative_slope",))),
    "elu": ("nn.ELU", lambda call: _given(call, ("alpha",))),
    "softmax": ("nn.Softmax", lambda call: _given(call, ("dim",))),
    "log_softmax": ("nn.LogSoftmax", lambda call: _given(call, ("dim",))),
    "max_pool1d": ("nn.MaxPool1d", lambda call: _given(call, ("kernel_size", "stride", "padding", "dilation"))),
    "max_pool2d": ("nn.MaxPool2d", lambda call: _given(call, ("kernel_size", "stride", "padding", "dilation"))),
    "avg_pool2d": ("nn.AvgPool2d", lambda call: _given(call, ("kernel_size", "stride", "padding"))),
    "flatten": ("nn.Flatten", lambda call: _given(call, ("start_dim",))),
}
"""Functions without weights that have a module in PyTorch, and their arguments."""


def _given(call: Call, names: Sequence[str]) -> dict[str, Any] | None:
    if len(call.args) - 1 > len(names):
        return None
    found = dict(zip(names, call.args[1:], strict=False)) | call.kwargs
    plain = all(isinstance(v, (int, float, str, tuple)) and not isinstance(v, (Size, Literal)) for v in found.values())
    return found if plain and set(found) <= set(names) else None


def place_functions(block: Sequence[Statement], layers: dict[Path, Layer]) -> None:
    """Turn a function that is a numbered module next to layers into that module, e.g. a ReLU in a Sequential."""
    calls = Counter(s.path for s in block)
    beside: dict[Path, list[str]] = {}
    for path in layers:
        for i in range(1, len(path)):
            beside.setdefault(path[:i], []).append(path[i])
    for call in block:
        path = call.path
        siblings = beside.get(path[:-1], [])
        if not isinstance(call, Call) or not path or not path[-1].isdigit() or calls[path] != 1 or path in layers:
            continue
        if not siblings or not all(n.isdigit() for n in siblings) or path in beside or len(call.outputs) != 1:
            continue
        name = call.target.rpartition(".")[2]
        kind, arguments = _MODULES.get(name, ("", lambda call: None))
        given = arguments(call) if call.target.startswith("torch.") else None
        if given is None:
            continue
        layers[path] = Layer(kind, given, {}, [call.args[0]], path)
        call.target, call.args, call.kwargs, call.function = "layer", [path, call.args[0]], {}, None


def shared_prefix(block: Sequence[Statement]) -> Mapping[Path, Path]:
    """Map prefixes of module paths in the graph to prefixes of the weights' paths.

    Keras names a node `model_1/block_1/conv_1/Relu`, and its weight `block/conv/kernel`.
    """
    votes: dict[Path, Counter[Path]] = {}
    for call in all_statements(block):
        if isinstance(call, Call) and call.target == "layer" and call.path:
            place, found = call.path, call.args[0]
            votes.setdefault(place, Counter())[found] += 1
            while place:
                place, found = place[:-1], found[:-1]
                votes.setdefault(place, Counter())[found] += 1
    return {place: max(sorted(found), key=lambda p: found[p]) for place, found in votes.items()}


def moved_path(path: Path, moved: Mapping[Path, Path]) -> Path:
    """Return a path of the graph, translated to the path of the weights."""
    for i in range(len(path), 0, -1):
        if path[:i] in moved:
            return (*moved[path[:i]], *path[i:])
    return path
