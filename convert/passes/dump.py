"""Writes the graph after each pass to files, to find the pass that broke a layout or a fold."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx_ir as ir

from convert.errors import UsageError

_INLINE = 1024
"""Weights of at most this many bytes are stored inside the graph's file."""


def make_dump_folder(folder: Path) -> Path:
    """Return `folder`, created if it does not exist. Raises `UsageError` if it is not a folder, or not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", hint="give --dump-passes a new folder")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}", hint="give --dump-passes a new folder"
        ) from None
    return folder


def dump_model(model: ir.Model, name: str, folder: Path) -> None:
    """Write `model` to `folder` as `NN-name.onnx`, numbered consecutively; the model is not modified.

    Weights are external data in `weights/`, in files named by a hash of their content, so that an unchanged weight is
    stored once. Operators of domains such as `convert.channels_last` have no schema; `onnx.load` reads them
    nevertheless.
    """
    copy = model.clone()
    for graph in copy.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.nbytes > _INLINE and tensor.dtype != ir.DataType.STRING:
                value.const_value = _external(tensor, str(value.name), folder)
    number = len(list(folder.glob("*.onnx")))
    ir.save(copy, folder / f"{number:02}-{name}.onnx")


def _external(tensor: ir.TensorProtocol, name: str, folder: Path) -> ir.ExternalTensor:
    data = tensor.tobytes()
    place = Path("weights", hashlib.sha256(data).hexdigest()[:16])
    file = folder / place
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor(str(place), 0, len(data), tensor.dtype, shape=shape, name=name, base_dir=folder)
