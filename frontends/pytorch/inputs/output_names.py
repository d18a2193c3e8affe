"""The names of a model's outputs, the same for the reader and the runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from ..torch_internals import pytree


def output_names(spec: pytree.TreeSpec) -> list[str]:
    """Return the names of the leaves of what `forward` returns.

    A single tensor is "output"; those of a tuple are "output_0", "output_1" …; those of a dict (or dataclass) are its
    keys, joined by dots if nested.
    """
    places = plain_containers(pytree.tree_unflatten(list(range(spec.num_leaves)), spec))
    rows = sorted(pytree.tree_flatten_with_path(places)[0], key=lambda row: row[1])
    paths = [path for path, _ in rows]
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
    """Return the tensors and numbers that `forward` returned, by name; None and strings are left out."""
    leaves, spec = pytree.tree_flatten(plain_containers(result))
    names = output_names(spec)
    return {name: leaf for name, leaf in zip(names, leaves, strict=True) if is_output(leaf)}


def is_output(leaf: Any) -> bool:
    """Return False for None and strings, which no graph can return."""
    return leaf is not None and not isinstance(leaf, str)


def plain_containers(result: Any) -> Any:
    """Return forward's result with containers that PyTorch cannot flatten by name replaced by dicts.

    These are unregistered dataclasses and objects with tensors as attributes, and registered classes without keys
    (diffusers' outputs).
    """
    if not any(map(_is_opaque, pytree.tree_leaves(result, is_leaf=_is_opaque))):
        return result
    return pytree.tree_map(_opened, result, is_leaf=_is_opaque)


def _is_opaque(value: Any) -> bool:
    known = pytree.SUPPORTED_NODES.get(type(value))
    if known is not None:
        return known.flatten_with_keys_fn is None
    if isinstance(value, (torch.Tensor, torch.nn.Module, type, tuple)):
        return False
    attributes = getattr(value, "__dict__", {})
    return is_dataclass(value) or any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(dict(attributes)))


def _opened(value: Any) -> Any:
    """Return the tensors in an object by name; attributes that are settings (a flag, a number) are no outputs."""
    if not _is_opaque(value):
        return value
    if isinstance(value, Mapping):
        return plain_containers(dict(value))
    if is_dataclass(value):
        return plain_containers({field.name: getattr(value, field.name) for field in fields(value)})
    if type(value) in pytree.SUPPORTED_NODES:
        return plain_containers(tuple(pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)[0]))
    attributes = {name: part for name, part in vars(value).items() if not name.startswith("_")}
    return plain_containers(
        {n: p for n, p in attributes.items() if not isinstance(p, (bool, int, float, str, torch.device))}
    )


def _key(entry: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return entry
