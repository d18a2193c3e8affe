"""The tensors of an ONNX model, lazily: checked against their dims, confined to the model's folder, never copied."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from convert import limits
from convert.errors import BadInput, Unsupported
from convert.files.holes import check_holes
from convert.graph.tensors import lazy_tensor, numpy_dtype

from .lazy_proto import ByteSpan

_FIELD_OF_TYPE = {
    "float_data": ("FLOAT", "COMPLEX64"),
    "double_data": ("DOUBLE", "COMPLEX128"),
    "int64_data": ("INT64",),
    "uint64_data": ("UINT64", "UINT32"),
    "string_data": ("STRING",),
}


def check_tensor(tensor: onnx.TensorProto, span: ByteSpan | None = None) -> None:
    """Raise `BadInput` unless dtype, dims and data size of a tensor agree. Allocates nothing."""
    name = tensor.name or "(without a name)"
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:
        dtype = ir.DataType.UNDEFINED
    if dtype == ir.DataType.UNDEFINED:
        raise BadInput(f"the tensor {name!r} has no known dtype ({tensor.data_type})", hint=_BROKEN)
    if any(d < 0 for d in tensor.dims):
        raise BadInput(f"the tensor {name!r} has a negative dim: {list(tensor.dims)}", hint=_BROKEN)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    count = _element_count(tensor.dims)
    if span is not None or tensor.HasField("raw_data"):
        found = span.length if span is not None else len(tensor.raw_data)
        wanted = _byte_count(dtype, count)
        if dtype == ir.DataType.STRING or found != wanted:
            raise BadInput(
                f"the tensor {name!r} has {found} bytes of data where its dims {list(tensor.dims)} of "
                f"{dtype.name.lower()} need {wanted}",
                hint=_BROKEN,
            )
        return
    field = next((f for f, types in _FIELD_OF_TYPE.items() if dtype.name in types), "int32_data")
    found = len(getattr(tensor, field))
    wanted = 2 * count if dtype.name.startswith("COMPLEX") else count
    if dtype != ir.DataType.STRING and dtype.bitwidth < 8:
        wanted = _byte_count(dtype, count)
    if found != wanted:
        raise BadInput(
            f"the tensor {name!r} has {found} values where its dims {list(tensor.dims)} need {wanted}", hint=_BROKEN
        )


_BROKEN = "the file is broken or was made to mislead; fetch or export it again"


def mapped_tensor(tensor: onnx.TensorProto, file: Path, span: ByteSpan) -> ir.LazyTensor:
    """Return the tensor whose raw data is `span` of `file`, mapped into memory when it is read."""
    dtype = ir.DataType(tensor.data_type)
    shape = list(tensor.dims)
    if dtype.bitwidth < 8:
        return ir.LazyTensor(
            lambda: ir.ExternalTensor(file, span.offset, span.length, dtype, shape=ir.Shape(shape), name=tensor.name),
            dtype=dtype,
            shape=ir.Shape(shape),
            name=tensor.name,
        )
    return lazy_tensor(dtype, shape, lambda: _map_array(file, span, dtype, shape), tensor.name)


def external_tensor(tensor: onnx.TensorProto, model: Path | None) -> ir.LazyTensor:
    """Return the tensor whose data is in a separate file next to `model`.

    Raises `BadInput` if the file is missing, shorter than the dims need, or outside the model's folder (by an absolute
    path, `..` or a symbolic link).
    """
    name = tensor.name or "(without a name)"
    where = {e.key: e.value for e in tensor.external_data}
    location = where.get("location", "")
    if model is None:
        raise BadInput(
            f"the weights {name!r} are in the file {location!r}, but a model in memory has no folder",
            hint="give the path of the .onnx file, or load it with onnx.load, which brings the weights",
        )
    file = _confined_path(location, model, name)
    dtype = ir.DataType(tensor.data_type)
    if dtype == ir.DataType.STRING:
        raise BadInput(f"the weights {name!r} are strings in an external file, which ONNX does not allow", hint=_BROKEN)
    wanted = _byte_count(dtype, _element_count(tensor.dims))
    try:
        offset, length = int(where.get("offset") or 0), int(where.get("length") or wanted)
    except ValueError as error:
        text = f"the external data of {name!r} has no readable offset and length: {error}"
        raise BadInput(text, hint=_BROKEN) from error
    if offset < 0 or length != wanted:
        raise BadInput(
            f"the weights {name!r} say that they are {length} bytes at {offset} of {location!r}; their dims "
            f"{list(tensor.dims)} of {dtype.name.lower()} need {wanted}",
            hint=_BROKEN,
        )
    size = file.stat().st_size
    check_holes(file)
    if offset + length > size:
        raise BadInput(
            f"{location!r} is too short: the weights {name!r} end at byte {offset + length}, and the file "
            f"has {size} bytes",
            hint="it may be truncated; fetch it again",
        )
    return mapped_tensor(tensor, file, ByteSpan(offset, length))


def external_files(proto: onnx.ModelProto, model: Path | None) -> list[Path]:
    """Return the files that initializers of the graph refer to, each once."""
    entries = (e for t in proto.graph.initializer for e in t.external_data if e.key == "location")
    return [] if model is None else [model.parent / place for place in dict.fromkeys(e.value for e in entries)]


def dense_tensor(sparse: onnx.SparseTensorProto) -> ir.LazyTensor:
    """Return a sparse initializer as a dense one, expanded when it is read."""
    values, indices, dims = sparse.values, sparse.indices, list(sparse.dims)
    check_tensor(values)
    check_tensor(indices)
    name = values.name
    if any(d < 0 for d in dims):
        raise BadInput(f"the sparse tensor {name!r} has a negative dim: {dims}", hint=_BROKEN)
    dtype = ir.DataType(values.data_type)
    if _byte_count(dtype, _element_count(dims)) > limits.ONNX_SPARSE_BYTES:
        raise Unsupported(f"the sparse initializer {name!r} of dims {dims} would be over 2 GiB in full")
    where = onnx.numpy_helper.to_array(indices)
    if where.ndim == 2:
        right = where.shape == (_element_count(values.dims), len(dims))
        inside = right and bool(np.all((where >= 0) & (where < np.array(dims))))
        flat = np.ravel_multi_index(tuple(where.T), tuple(dims)) if inside and dims else where[:, :0].sum(axis=1)
    else:
        flat = where
        inside = where.shape == (_element_count(values.dims),) and bool(
            np.all((where >= 0) & (where < _element_count(dims)))
        )
    if not inside:
        raise BadInput(f"the sparse tensor {name!r} has indices outside its dims {dims}", hint=_BROKEN)

    def make() -> np.ndarray:
        dense = np.zeros(_element_count(dims), dtype=numpy_dtype(dtype))
        dense[flat] = onnx.numpy_helper.to_array(values).reshape(-1)
        return dense.reshape(dims)

    return lazy_tensor(dtype, dims, make, name)


def _map_array(file: Path, span: ByteSpan, dtype: ir.DataType, shape: list[int]) -> np.ndarray:
    if span.length == 0:
        return np.zeros(shape, dtype=dtype.numpy())
    page = span.offset - span.offset % mmap.ALLOCATIONGRANULARITY
    with open(file, "rb") as stream:
        view = mmap.mmap(stream.fileno(), span.offset - page + span.length, access=mmap.ACCESS_READ, offset=page)
    kind = np.dtype(dtype.numpy())
    if kind.itemsize > 1 and kind.kind in "fiuc":
        kind = kind.newbyteorder("<")
    return np.frombuffer(view, dtype=kind, count=_element_count(shape), offset=span.offset - page).reshape(shape)


def _confined_path(location: str, model: Path, name: str) -> Path:
    """Return the file that `location` names, inside the folder of `model` (as named, or after resolving links)."""
    folder = model.parent
    outside = BadInput(
        f"the weights {name!r} are said to be in {location!r}, outside the folder of {model.name}",
        hint="put the data file beside the model; links and paths out of its folder are not followed",
    )
    if not location or os.path.isabs(location) or ".." in Path(location).parts or "\0" in location or "\\" in location:
        raise outside
    file = folder / location
    try:
        real = file.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise BadInput(
            f"the weights {name!r} are in {location!r}, which is not beside {model.name}",
            hint="the data file has to be in the folder of the model: fetch or copy it there",
        ) from error
    homes = {folder.resolve(), model.resolve().parent}
    if not any(real.is_relative_to(home) for home in homes):
        raise outside
    if not real.is_file():
        raise BadInput(f"the weights {name!r} are in {location!r}, which is not a file", hint=_BROKEN)
    return real


def _element_count(dims: Iterable[int]) -> int:
    count = 1
    for dim in dims:
        count *= int(dim)
    return count


def _byte_count(dtype: ir.DataType, count: int) -> int:
    return 0 if dtype == ir.DataType.STRING else -(-count * dtype.bitwidth // 8)
