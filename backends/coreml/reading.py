"""Reads a package back with coremltools: its inputs and outputs, and its weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import DATA, MODEL

_FEW = 16
"""Tensors of fewer elements are not looked for: their numbers could be there by chance."""


def read_back(package: Path, weights: Iterable[Any]) -> dict[str, Any]:
    """Return inputs and outputs with name, dtype and shape, and how many of the `weights` are in the package.

    A dynamic dim is a pair of its minimum and maximum size. A weight is found if some constant has the same numbers in
    any order, because coremltools transposes weights, folds a batch normalization into a convolution, and joins the
    weights of an LSTM. Raises the errors of coremltools for a package that it cannot read.
    """
    import coremltools
    from coremltools.converters.mil.frontend.milproto.load import load

    spec = coremltools.utils.load_spec(str(package / MODEL))
    program = load(spec, spec.specificationVersion, file_weights_dir=str(package / DATA / "weights"))
    stored = {_key(value) for value in _constants(program)}
    wanted = [value.detach().numpy() for value in weights if value.numel() >= _FEW]
    return {
        "inputs": [_end(value) for value in spec.description.input],
        "outputs": [_end(value) for value in spec.description.output],
        "weights": {"all": len(wanted), "same": sum(_key(value) in stored for value in wanted)},
    }


def _end(value: Any) -> dict[str, Any]:
    from coremltools.proto import FeatureTypes_pb2

    array = value.type.multiArrayType
    dtype = FeatureTypes_pb2.ArrayFeatureType.ArrayDataType.Name(array.dataType).lower()
    ranges = [(r.lowerBound, r.upperBound) for r in array.shapeRange.sizeRanges]
    fixed = [int(size) for size in array.shape]
    shape = [low if low == high else [low, high] for low, high in ranges] or fixed
    return {"name": value.name, "dtype": dtype, "shape": shape}


def _constants(program: Any) -> Iterator[np.ndarray]:
    """Yield the constants of the main function; loop bodies have small ones only."""
    for operation in program.functions["main"].operations:
        if operation.op_type == "const" and isinstance(operation.val.val, np.ndarray):
            yield operation.val.val


def _key(array: np.ndarray) -> bytes:
    return np.sort(array, axis=None).tobytes()
