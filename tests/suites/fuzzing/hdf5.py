"""Mutate HDF5 files: their bytes, and groups, datasets and attributes through the library."""

from __future__ import annotations

import io
import json
import random
from typing import Any

from tests.suites.fuzzing.numbers import changed_bytes, changed_tree, changed_word


def changed_hdf5(rng: random.Random, data: bytes) -> bytes:
    """Change bytes in half of the cases, else one object, link or attribute."""
    if rng.random() < 0.5:
        return changed_bytes(rng, data) if rng.random() < 0.5 else changed_word(rng, data)
    import h5py

    file = io.BytesIO(data)
    with h5py.File(file, "a") as root:
        items: list[Any] = [root]
        root.visititems(lambda name, item: items.append(item))
        for _ in range(rng.choice((1, 1, 2))):
            item = rng.choice(items)
            if item and rng.random() < 0.6 and len(item.attrs):
                _change_attribute(rng, item)
            elif item and item.name != "/":
                _change_object(rng, root, item)
    return file.getvalue()


def _change_attribute(rng: random.Random, item: Any) -> None:
    key = rng.choice(list(item.attrs))
    value = item.attrs[key]
    kind = rng.randrange(6)
    if kind == 0:
        del item.attrs[key]
    elif kind == 1:
        item.attrs[key] = rng.choice([b"x", 7, -1, [1.5, 2.5], "", "x" * 1000])
    elif isinstance(value, str | bytes) and value[:1] in ("{", b"{"):
        item.attrs[key] = json.dumps(changed_tree(rng, json.loads(value)))
    elif hasattr(value, "tolist") and len(value := value.tolist()):
        changed = changed_tree(rng, [v.decode() if isinstance(v, bytes) else v for v in value])
        item.attrs[key] = [str(v).replace("\0", "").encode() for v in changed] or b""
    else:
        item.attrs[key] = rng.choice([str(value)[:-1], "3", ""])


def _change_object(rng: random.Random, root: Any, item: Any) -> None:
    import h5py
    import numpy as np

    name, kind = item.name, rng.randrange(6)
    if kind == 0 or not isinstance(item, h5py.Dataset):
        if kind == 1:
            item["loop"] = h5py.SoftLink("/")
        elif kind == 2:
            item["again"] = root["/"]
        elif kind == 3:
            root[name + "x"] = item
        else:
            del root[name]
        return
    value = item[()]
    del root[name]
    if kind == 1:
        value = np.asarray(value).astype(rng.choice(["float64", "float16", "int32", "S4", "complex64"]))
    elif kind == 2:
        value = np.asarray(value).ravel()[: rng.randrange(1 + np.asarray(value).size)]
    elif kind == 3:
        value = np.asarray(value).T
    elif kind == 4:
        root.create_dataset(
            name, shape=np.shape(value), maxshape=None, dtype="float32", chunks=True if np.shape(value) else None
        )
        return
    else:
        root.create_dataset(name, shape=(2**40,), dtype="float32", chunks=(2**20,))
        return
    root[name] = value
