"""Gives the weights in archives of Keras 2.12 and later the names under which Keras 3 looks for them.

Keras on Windows writes `\\` between the parts of names. Keras 2.12 and 2.13 count every layer that has weights twice:
the second Dense of a model is `_layer_checkpoint_dependencies/dense_2`, where Keras 3 looks for `dense_1`.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from convert.files.archives import open_archive

_COUNTED_TWICE = "_layer_checkpoint_dependencies"
_NUMBERED = re.compile(r"(.+?)(?:_(\d+))?")


def with_current_names(path: Path) -> io.BytesIO | Path:
    """Return an archive in memory with Keras 3's names of weights, or the path if it has these names.

    Raises `ValueError` if two names become equal.
    """
    with open_archive(path) as archive:
        members = {name: archive.open(name) for name in archive.namelist() if name.endswith(".h5")}
        renamed = {name: content for name, member in members.items() if (content := _weights(member)) is not None}
        if not renamed:
            return path
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w") as rewritten:
            for name in archive.namelist():
                rewritten.writestr(name, renamed[name] if name in renamed else archive.read(name))
        whole.seek(0)
        return whole


def _weights(member: Any) -> bytes | None:
    """Return the HDF5 file with Keras 3's names; None if it has them."""
    import h5py

    with h5py.File(member, "r") as file:
        names: list[str] = []
        file.visit(names.append)
        current = current_names(names)
        if all(old == new for old, new in current.items()):
            return None
        content = io.BytesIO()
        with h5py.File(content, "w") as rewritten:
            for old, new in current.items():
                item = file[old]
                if isinstance(item, h5py.Dataset):
                    file.copy(item, rewritten, name=new)
                else:
                    rewritten.require_group(new).attrs.update(item.attrs)
        return content.getvalue()


def current_names(names: Iterable[str]) -> dict[str, str]:
    """Return Keras 3's names of weights and groups by those in a file.

    >>> list(current_names([f"_layer_checkpoint_dependencies/{layer}" for layer in ("dense", "dense_2")]).values())
    ['_layer_checkpoint_dependencies/dense', '_layer_checkpoint_dependencies/dense_1']
    """
    paths = {name: name.replace("\\", "/").split("/") for name in names}
    layers: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for parts in paths.values():
        for i, part in enumerate(parts[:-1], 1):
            if part == _COUNTED_TWICE:
                layers[tuple(parts[:i])].add(parts[i])
    numbers = {(*parent, old): new for parent, found in layers.items() for old, new in _counted_once(found).items()}
    return {
        name: "/".join(numbers.get(tuple(parts[: i + 1]), part) for i, part in enumerate(parts))
        for name, parts in paths.items()
    }


def _counted_once(names: Iterable[str]) -> dict[str, str]:
    """Return consecutive names by those of the layers of a model, whose numbers have gaps; each class has its own."""
    classes: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in names:
        match = _NUMBERED.fullmatch(name)
        assert match is not None, "a part of a name is not empty"
        classes[match[1]].append((int(match[2] or 0), name))
    return {
        name: f"{kind}_{rank}" if rank else kind
        for kind, found in classes.items()
        for rank, (_, name) in enumerate(sorted(found))
    }
