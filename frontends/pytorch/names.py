"""The names of a model's inputs and outputs, the same for the reader and the runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils import _pytree as pytree


def joined(path: Sequence[Any], separator: str = "_") -> str:
    """The keys on the way to a leaf of nested containers, as one name."""
    return separator.join(str(_key(p)) for p in path)


def output_names(spec: pytree.TreeSpec) -> list[str]:
    """Names of the leaves of what `forward` returns.

    A lone tensor is "output"; a tuple's are "output_0", "output_1" …; a dict's (or a dataclass's) its keys, joined
    with dots where nested.
    """
    leaves = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths = [path for path, _ in pytree.tree_flatten_with_path(leaves)[0]]
    named = []
    for path in paths:
        keys = [str(_key(p)) for p in path]
        if not keys:
            named.append("output")
        elif isinstance(_key(path[0]), int):
            named.append("output_" + ".".join(keys))
        else:
            named.append(".".join(keys))
    return named


def named_outputs(result: Any) -> dict[str, Any]:
    """The tensors and numbers that `forward` returned, by name; None among them is left out."""
    leaves, spec = pytree.tree_flatten(result)
    names = output_names(spec)
    return {name: leaf for name, leaf in zip(names, leaves, strict=True) if leaf is not None}


def input_paths(args: Sequence[Any], kwargs: dict[str, Any], parameters: Sequence[str]) -> list[str]:
    """Names of the leaves of a call: the parameter's, with the keys of nested containers joined by "_".

    `parameters` are the names of forward's positional parameters; the last of them may be `*args`, whose elements
    are numbered.
    """
    names = []
    for path, _ in pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))[0]:
        keys = [_key(p) for p in path]
        if keys[0] == 0:
            index = keys[1]
            first = (
                parameters[index]
                if index < len(parameters)
                else f"{parameters[-1] if parameters else 'input'}_{index - len(parameters) + 1}"
            )
            names.append("_".join([first, *map(str, keys[2:])]))
        else:
            names.append("_".join(map(str, keys[1:])))
    return names


def _key(entry: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return entry
