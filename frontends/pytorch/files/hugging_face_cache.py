"""The cache of a decoder as inputs and outputs: keys and values of attention, states of convolutions and recurrences.

Names are those that transformers.js looks for: `past_key_values.0.key` and `present.0.key`, `past_conv.1` and
`present_conv.1`, `past_ssm.1` for the state of a state space model, and `past_recurrent.1` for that of another
recurrence. Tensors that a model keeps in a cache of its own are named by where they are in it: `past_rnn_state.0.1` and
`present_rnn_state.0.1`. A first call takes keys and values of length 0, and states of zeros.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from convert.errors import Unsupported
from convert.request.options import DimSpec, InputSpec

PAST, PRESENT = "past_key_values", "present"
"""`--input past_key_values:float32` makes a decoder's cache inputs and outputs."""
_ATTENTION, _CONV, _SSM, _RECURRENT, _STATE = "key_values", "conv", "ssm", "recurrent", "state"
_LAYERS = "layers"
"""The attribute of a cache of transformers that has an object for each layer."""
_PARAMETER = re.compile(r"(past_\w+?)_(\d+(?:_\w+)?)")
_INPUT = re.compile(r"past_\w+\.\d.*")
WITHOUT_CACHE = "--task text-generation converts the model without it"
_STATE_SIZES = ("state_size", "ssm_state_size", "mamba_d_state")
"""Names of the size of a state in the configurations of state space models."""


def is_cache_parameter(name: str) -> bool:
    """Return whether a parameter of a forward made for capture is a part of the cache."""
    return _PARAMETER.fullmatch(name) is not None


def cache_input_name(parameter: str) -> str:
    """Return the graph input for a parameter of such a forward: `past_key_values_0_key` with dots."""
    found = _PARAMETER.fullmatch(parameter)
    return parameter if found is None else f"{found[1]}.{found[2].replace('_', '.')}"


def parameter_name(name: str) -> str:
    """Return the parameter of such a forward for a graph input."""
    return name.replace(".", "_") if _INPUT.fullmatch(name) else name


class Tensor(NamedTuple):
    """A tensor of a cache: the kind of its content, its place among others of this kind, and itself."""

    kind: str
    place: str
    value: torch.Tensor

    @property
    def input(self) -> str:
        """The name of the graph input."""
        return f"past_{self.kind}.{self.place}"

    @property
    def output(self) -> str:
        """The name of the graph output."""
        return f"{PRESENT}.{self.place}" if self.kind == _ATTENTION else f"{PRESENT}_{self.kind}.{self.place}"


def cache_outputs(model: Any, cache: Any) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors of a cache by the names of their outputs."""
    return [(each.output, each.value) for each in _tensors(model, cache)]


_ROWS, _TOKENS = 2, 3
"""The sizes of a run on fake tensors that determines the content of a cache."""


def cache_specs(model: Any, run: Callable[[int, int], Any]) -> list[InputSpec]:
    """Return the inputs for a cache; `run` returns the one that forward makes for so many rows and tokens.

    Raises `Unsupported` for caches that are made of other tensors.
    """
    cache = run(_ROWS, _TOKENS)
    larger: dict[str, torch.Tensor] = {}
    if _own_tensors(cache):  # their dims have no order that is known
        larger = {each.input: each.value for each in _own_tensors(run(_ROWS + 1, _TOKENS + 2))}
    specs, fits = [], True
    for each in _tensors(model, cache):
        shape = each.value.shape
        dims = [DimSpec(name="batch_size"), *map(DimSpec, shape[1:])]
        if each.input in larger:
            dims = list(map(_dim_of_sizes, shape, larger[each.input].shape))
        else:
            fits &= shape[0] == _ROWS
        if each.kind == _ATTENTION:
            fits &= len(dims) == 4 and shape[2] == _TOKENS
            dims[2:3] = [DimSpec(name="past_sequence_length")]
        dtype = str(each.value.dtype).removeprefix("torch.")
        specs.append(InputSpec(parameter_name(each.input), dtype, tuple(dims)))
    if fits and specs:
        return specs
    reason = f"the cache of {type(model).__name__} has other shapes than keys, values and states"
    raise Unsupported(reason, hint=WITHOUT_CACHE)


def _dim_of_sizes(size: int, larger: int) -> DimSpec:
    """Return a dim by its sizes in two runs, the second with one more row and two more tokens."""
    known = {(_ROWS, _ROWS + 1): "batch_size", (_TOKENS, _TOKENS + 2): "past_sequence_length"}
    if size != larger and (size, larger) not in known:
        raise Unsupported(f"a cache grows from {size} to {larger} by one row and two tokens", hint=WITHOUT_CACHE)
    return DimSpec(size) if size == larger else DimSpec(name=known[size, larger])


def form_of_cache(specs: Sequence[InputSpec], run: Callable[[int, int], Any]) -> Any:
    """Return a copy of the cache of a model's own class with parameters of a forward in place of its tensors.

    Returns None for a cache that has layers alone, as most have; `filled_cache` makes it from the names of `specs`.
    """
    kinds = {found[1] for s in specs if (found := _PARAMETER.fullmatch(str(s.name)))}
    if kinds <= {f"past_{kind}" for kind in (_ATTENTION, _CONV, _SSM, _RECURRENT)}:
        return None
    cache = run(_ROWS, _TOKENS)
    names = iter(_own_tensors(cache))
    return _mapped(cache, lambda *_: _Parameter(parameter_name(next(names).input)))


class _Parameter(NamedTuple):
    """The place of a tensor in a form of a cache."""

    name: str


def filled_cache(form: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Return a cache with these tensors, which are named as the parameters of a forward.

    Tensors of a model's own cache are copied, because forward may write to them.
    """
    if form is None:
        from transformers import DynamicCache

        cache = DynamicCache()
    else:
        cache = _mapped(form, lambda parameter, *_: tensors[parameter.name].clone())
    if hasattr(cache, _LAYERS):
        cache.layers = _filled_layers(tensors)
    return cache


def _filled_layers(tensors: Mapping[str, torch.Tensor]) -> list[Any]:
    from transformers.cache_utils import DynamicLayer

    found: dict[int, dict[tuple[str, int], torch.Tensor]] = {}
    for name, tensor in tensors.items():
        match = _PARAMETER.fullmatch(name)
        assert match is not None
        kind, (number, _, rest) = match[1].removeprefix("past_"), match[2].partition("_")
        if kind in (_ATTENTION, _CONV, _SSM, _RECURRENT):
            part = (rest, 0) if kind == _ATTENTION else (kind, int(rest or 0))
            found.setdefault(int(number), {})[part] = tensor
    layers: list[Any] = []
    for number in range(max(found, default=-1) + 1):
        given = found.get(number, {})
        states = {part: tensor for part, tensor in given.items() if part[0] not in ("key", "value")}
        layer = _layer_with_states(states, len(states) < len(given)) if states else DynamicLayer()
        if ("key", 0) in given:
            layer.update(given["key", 0], given["value", 0])
        layers.append(layer)
    return layers


def _layer_with_states(states: Mapping[tuple[str, int], torch.Tensor], attends: bool) -> Any:
    """Return a layer of a cache whose states are known, so that a forward continues from them."""
    from transformers.cache_utils import LinearAttentionAndFullAttentionLayer, LinearAttentionLayer

    count = max(index for _, index in states) + 1
    layer: Any = (LinearAttentionAndFullAttentionLayer if attends else LinearAttentionLayer)(number_of_states=count)
    for (part, index), tensor in states.items():
        if part == _CONV:
            layer.update_conv_state(tensor, state_idx=index)
        else:
            layer.update_recurrent_state(tensor, state_idx=index)
            layer.has_previous_state[index] = True
    return layer


def _tensors(model: Any, cache: Any) -> Iterator[Tensor]:
    """Yield the tensors of a cache: those of its layers, then those that the model keeps beside them."""
    config = model.config.get_text_config()
    recurrent = _SSM if any(hasattr(config, name) for name in _STATE_SIZES) else _RECURRENT
    for number, layer in enumerate(getattr(cache, _LAYERS, ())):
        for part in ("key", "value"):
            if (tensor := getattr(layer, f"{part}s", None)) is not None:
                yield Tensor(_ATTENTION, f"{number}.{part}", tensor)
        for kind, states in ((_CONV, "conv_states"), (recurrent, "recurrent_states")):
            for index, tensor in getattr(layer, states, {}).items():
                if tensor is not None:
                    yield Tensor(kind, f"{number}{f'.{index}' if index else ''}", tensor)
    yield from _own_tensors(cache)


def _own_tensors(cache: Any) -> list[Tensor]:
    """Return the tensors of a cache besides its layers, named by the attribute and the places in it that hold them."""
    found: list[Tensor] = []

    def add(tensor: torch.Tensor, *place: Any) -> torch.Tensor:
        names = [str(each) for each in place]
        kind = names.pop(0) if names and not names[0].isdecimal() else _STATE
        found.append(Tensor(kind, ".".join(names) or "0", tensor))
        return tensor

    _mapped(cache, add)
    return found


def _mapped(value: Any, change: Callable[..., Any], *place: Any) -> Any:
    """Return a copy of a tree of tensors, or of names of tensors, with `change(leaf, *place)` in place of each leaf.

    A tree is a list, a tuple, a dictionary or an object of transformers. The layers of a cache are left out.
    """
    if isinstance(value, (torch.Tensor, _Parameter)):
        return change(value, *place)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(each, change, *place, index) for index, each in enumerate(value))
    if isinstance(value, dict):
        return {key: _mapped(each, change, *place, key) for key, each in value.items()}
    if not type(value).__module__.startswith("transformers") or isinstance(value, type) or hasattr(value, "model_type"):
        return value
    made = copy.copy(value)
    vars(made).update({k: _mapped(v, change, *place, k) for k, v in vars(value).items() if k != _LAYERS})
    return made
