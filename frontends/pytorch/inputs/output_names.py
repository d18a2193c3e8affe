"""The names of a model's outputs, the same for the reader and the runner."""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree


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


def _key(entry: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return getattr(entry, attribute)
    return entry
