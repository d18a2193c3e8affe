"""Keras files with code in their configuration, and HDF5 files with links to elsewhere, in circles or to endless data.

The good file is written in a process of its own: `python -m tests.suites.hostile_files.keras_files FOLDER`.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name, members, stored

KERAS = FIXTURES / "mnist_cnn.keras"


def _entries(canary: Canary) -> dict[str, dict[str, Any]]:
    """Return entries of a configuration that name objects other than Keras's own layers."""
    layers = "keras.layers"
    code = ["4wEAAAAAAAAAAAAAAAEAAAACAAAAQwAAAHMEAAAAfABTACkB", None, None]
    make = f"(lambda: open({str(canary.marker)!r}, 'w'))()"

    def entry(module: str | None, name: str, config: Any = None, registered: str | None = None) -> dict[str, Any]:
        return {"module": module, "class_name": name, "config": {} if config is None else config,
                "registered_name": registered, "name": "x", "inbound_nodes": []}  # fmt: skip

    marshal = {"class_name": "__lambda__", "config": {"code": code[0], "defaults": None, "closure": None}}
    return {
        "Lambda": entry(layers, "Lambda", {"name": "x", "function": marshal}),
        "Lambda of Keras 2": entry(None, "Lambda", {"name": "x", "function": code, "function_type": "lambda"}),
        "Lambda of raw marshal": entry(layers, "Lambda", {"function": code, "function_type": "lambda"}),
        "Lambda in another module": entry("keras.src.layers.core.lambda_layer", "Lambda", {"function": marshal}),
        "TFSMLayer": entry(layers, "TFSMLayer", {"filepath": "/tmp", "call_endpoint": "serve"}),
        "os.system": entry("os", "system", f"touch {canary.marker}"),
        "eval": entry("builtins", "eval", make),
        "a function of builtins": entry("builtins", "function", "eval", "function"),
        "a function that loads": entry(layers, "Activation",
                                       {"activation": entry("keras.models", "function", "load_model")}),
        "a function that makes layers": entry(layers, "Activation",
                                              {"activation": entry(layers, "function", "deserialize")}),
        "a function that saves": entry("keras.models", "function", "save_model", "save_model"),
        "subprocess": entry("subprocess", "Popen", {"args": ["touch", str(canary.marker)]}),
        "keras.utils.get_file": entry("keras.utils", "get_file", {"fname": "x", "origin": f"http://127.0.0.1:{canary.port}"}),
        "keras.src.saving": entry("keras.src.saving.saving_lib", "load_model", {"filepath": "/etc/passwd"}),
        "a module beside layers": entry("keras.layers.os", "system", "true"),
        "a module with dots": entry("keras.src.layers..os", "system", "true"),
        "an attribute of a class": entry(layers, "Dense.__init__", {}),
        "registered": entry(None, "Odd", {}, "mine>Odd"),
        "registered as a layer": entry(layers, "Dense", {"units": 1}, "mine>Lambda"),
        "a vocabulary elsewhere": entry(layers, "StringLookup", {"vocabulary": "/etc/passwd"}),
        "a wrapped layer": entry(layers, "TimeDistributed", {"layer": entry(layers, "Lambda", {"function": marshal})}),
        "a Lambda as an activation": entry(layers, "Dense", {"units": 1, "activation": marshal}),
        "a Lambda as an initializer": entry(layers, "Dense", {"units": 1, "kernel_initializer": marshal}),
        "a Lambda as a regularizer": entry(layers, "Dense", {"units": 1, "kernel_regularizer": entry("os", "system")}),
        "TorchModuleWrapper": entry(layers, "TorchModuleWrapper", {"module": "gASVAAAA"}),
        "JaxLayer": entry(layers, "JaxLayer", {"call_fn": "x"}),
        "FlaxLayer": entry("keras.layers", "FlaxLayer", {"module": "x"}),
        "a tensor with code": entry(layers, "Dense", {"units": {"class_name": "__numpy__", "config": {"value": make}}}),
        "units of 2^40": entry(layers, "Dense", {"units": 1 << 40}),
        "a table of 2^28": entry(layers, "Embedding", {"input_dim": 1 << 28, "output_dim": 16}),
        "units below zero": entry(layers, "Dense", {"units": -1}),
        "a name with control characters": entry(layers, "Dense", {"units": 1, "name": "\u202e\x1b[31m/../x\n"}),
        "no configuration": entry(layers, "Dense", []),
        "a vocabulary of the base class": entry("keras.src.layers.preprocessing.index_lookup", "IndexLookup",
                                                {"vocabulary": "/etc/passwd"}),
        "a model that is compiled as it is loaded": entry("keras", "Sequential", {"name": "s", "layers": []})
        | {"compile_config": {"optimizer": "sgd", "loss": entry("os", "system", f"touch {canary.marker}")}},
        "a Lambda to compile with": entry("keras", "Sequential", {"name": "s", "layers": []})
        | {"compile_config": {"optimizer": "sgd", "loss": marshal}},
        "a type of another module": entry("os", "__typespec__", []) | {"spec_name": "PathLike"},
        "a shared object": entry(layers, "Dense", {"units": 1}) | {"shared_object_id": -1},
        "a build of 2^60": entry(layers, "Dense", {"units": 1}) | {"build_config": {"input_shape": [1, 1 << 60]}},
        "a length of 2^60": entry(layers, "RepeatVector", {"n": 1 << 60}),
    }  # fmt: skip


def _archives(folder: Path, canary: Canary) -> Iterator[tuple[str, Path]]:
    content = members(KERAS)

    def save(name: str, **parts: bytes) -> tuple[str, Path]:
        changed = content | {key.replace("__", "."): value for key, value in parts.items()}
        return name, stored(folder / f"{file_name(name)}.keras", changed)

    for name, entry in _entries(canary).items():
        config = json.loads(content["config.json"])
        config["config"]["layers"].append(entry)
        yield save(name, config__json=json.dumps(config).encode())
    config = json.loads(content["config.json"])
    inner: Any = config
    for _ in range(200):
        inner = {"module": "keras", "class_name": "Sequential", "config": {"name": "s", "layers": [inner]},
                 "registered_name": "Sequential"}  # fmt: skip
    yield save("models 200 deep", config__json=json.dumps(inner).encode())
    yield save("a configuration 100,000 deep", config__json=b"[" * 100_000 + b"]" * 100_000)
    yield save("a configuration of numbers", config__json=b'{"class_name": 1e400, "config": NaN, "module": []}')
    config["compile_config"] = {"optimizer": {"module": "os", "class_name": "system", "config": "true"}}
    yield save("an optimizer", config__json=json.dumps(config).encode())
    config["build_config"] = {"input_shape": [1 << 60, 1 << 60]}
    config["module"] = "os"
    yield save("another module at the top", config__json=json.dumps(config).encode())
    yield save("metadata of another version", metadata__json=b'{"keras_version": "99", "date_saved": []}')
    for name, change in _links(folder).items():
        file = io.BytesIO(content["model.weights.h5"])
        _change(file, change)
        yield save(f"weights: {name}", model__weights__h5=file.getvalue())
    yield save("weights that are no HDF5", model__weights__h5=b"\x89HDF\r\n\x1a\n" + bytes(500))


def _links(folder: Path) -> dict[str, Callable[[Any], None]]:
    """Return HDF5 files with hostile links and datasets."""
    import h5py
    import numpy as np

    def external(file: Any) -> None:
        file["more"] = h5py.ExternalLink("/etc/passwd", "/")

    def soft(file: Any) -> None:
        file["more"] = h5py.SoftLink("/more")

    def hard(file: Any) -> None:
        group = file.create_group("loop")
        group["again"] = file["/"]
        group["twice"] = group

    def raw(file: Any) -> None:
        file.create_dataset("far", (4,), "f4", external=[("/etc/passwd", 0, 16)])

    def virtual(file: Any) -> None:
        layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
        layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=(4,))
        file.create_virtual_dataset("virtual", layout)

    def logical(file: Any) -> None:
        file.create_dataset("big", (1 << 38,), "f4", chunks=(1 << 20,))

    def packed(file: Any) -> None:
        file.create_dataset("zeros", data=np.zeros(1 << 24, "f4"), chunks=(1 << 24,), compression="gzip")

    def many(file: Any) -> None:
        for i in range(5000):
            file.create_group(f"g{i}")

    def deep(file: Any) -> None:
        group = file
        for _ in range(3000):
            group = group.create_group("g")

    def own(file: Any) -> None:
        """Put the object in place of one of the weights."""
        found: list[str] = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        del file[found[0]]
        file.create_dataset(found[0], (1 << 38,), "f4", chunks=(1 << 20,))

    def types(file: Any) -> None:
        file.create_dataset("texts", data=[b"x"], dtype=h5py.string_dtype())
        file.create_dataset("reference", data=file.ref, dtype=h5py.ref_dtype)

    changes = (external, soft, hard, raw, virtual, logical, packed, many, deep, own, types)
    return {change.__name__: change for change in changes}


def _change(file: Any, change: Callable[[Any], None]) -> None:
    import h5py

    with h5py.File(file, "a") as opened:
        change(opened)


def _h5(folder: Path, canary: Canary) -> Iterator[tuple[str, Path]]:
    import h5py

    good = folder / "good.h5"
    for name, change in _links(folder).items():
        path = Path(shutil.copy(good, folder / f"h5_{name}.h5"))
        _change(path, change)
        yield f"h5: {name}", path
    for name, entry in _entries(canary).items():
        path = Path(shutil.copy(good, folder / f"h5_{file_name(name)}.h5"))
        with h5py.File(path, "a") as file:
            config = json.loads(file.attrs["model_config"])
            config["config"]["layers"].append(entry)
            file.attrs["model_config"] = json.dumps(config)
        yield f"h5: {name}", path


def _archive_and_hdf5(folder: Path) -> Path:
    """Write a Keras archive named as HDF5, with an HDF5 file after 512 bytes of its first entry."""
    import h5py

    with h5py.File(folder / "good.h5") as old, h5py.File(folder / "block.h5", "w", userblock_size=512) as new:
        for key in old:
            old.copy(key, new)
        new.attrs.update(old.attrs.items())
    name = "assets/a"
    behind = (folder / "block.h5").read_bytes()[30 + len(name) :]  # a local header has 30 bytes and the name
    return stored(folder / "both.h5", {name: behind, **members(KERAS)})


def keras_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write all files, as `.keras` and as `.h5`."""
    subprocess.run([sys.executable, "-m", __name__, str(folder)], check=True, capture_output=True)
    for name, path in _archives(folder, canary):
        yield Case(name, path, good=KERAS)
    yield Case("an archive and HDF5", _archive_and_hdf5(folder), good=KERAS)
    for name, path in _h5(folder, canary):
        yield Case(name, path, good=folder / "good.h5")


if __name__ == "__main__":
    from tests.suites.fuzzing.seeds import keras_network

    keras_network().save(Path(sys.argv[1]) / "good.h5")
