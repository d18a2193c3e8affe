"""Stores weights in 8 bits by onnxruntime's own tools, and activations in 8 bits with calibration data.

Activations that meet a weight are quantized at run time if there is no calibration data (DynamicQuantizeLinear), per
tensor. With it, every operator that has an 8-bit form gets QuantizeLinear and DequantizeLinear around it. Weights have
a scale per output channel.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from convert.errors import ConvertError, UsageError
from convert.files.scratch import scratch_folder
from convert.graph import OPSET
from convert.graph.values import constant, rank
from convert.outcome.report import Report
from convert.passes.opset.convert import convert_opset
from convert.reference.half_precision import unbounded_outputs
from convert.request.nearest import saving_hint
from convert.runtimes.onnx import import_onnxruntime

from .writer import write_model

_SAMPLES = 16
"""Number of samples per run, if the batch is dynamic."""
_DYNAMIC = ["MatMul", "Gemm", "Conv"]


def quantize_file(model: ir.Model, path: Path, samples: Mapping[str, Any], report: Report) -> None:
    """Write a lowered float32 `model` to `path` in 8 bits. samples: arrays for the inputs, by name.

    Raises `ConvertError` if onnxruntime's tools reject the model, and `UsageError` if nothing would be narrower.
    """
    if not samples and not _has_weights(model):
        raise UsageError("the model has no weights that --quantize int8 stores narrower", hint="leave it out")
    for number, node in enumerate(model.graph):
        node.name = node.name or f"node_{number}"  # the tools identify nodes by name
    import_onnxruntime()
    with scratch_folder() as folder, _quiet():
        plain = folder / "float.onnx"
        write_model(model, plain, Report("quantize"))
        try:
            proto = _eight_bits(plain, folder, samples, model, report)
        except UsageError:
            raise
        except Exception as error:  # the tools raise whatever numpy, onnx and onnxruntime raise
            text = " ".join(str(error).split())[:300]
            raise ConvertError(
                f"onnxruntime's quantization of the model failed: {type(error).__name__}: {text}",
                hint="--dtype float16 stores numbers narrower too",
            ) from error
        write_model(_read(proto, folder), path, report)


def _read(proto: onnx.ModelProto, folder: Path) -> ir.Model:
    model = ir.serde.deserialize_model(proto)
    ir.external_data.set_base_dir(model.graph, folder)
    return model


def _eight_bits(
    plain: Path, folder: Path, samples: Mapping[str, Any], model: ir.Model, report: Report
) -> onnx.ModelProto:
    from onnxruntime import quantization as tools

    target = folder / "quantized.onnx"
    large = plain.with_name(f"{plain.name}.data").exists()
    if not samples:
        # Products of unsigned with signed bytes overflow on processors without VNNI.
        tools.quantize_dynamic(plain, target, op_types_to_quantize=_DYNAMIC, per_channel=True,
                               weight_type=tools.QuantType.QUInt8, use_external_data_format=large)  # fmt: skip
    else:
        tools.quantize_static(plain, target, _Samples(model, samples), per_channel=True, use_external_data_format=large,
                              nodes_to_exclude=_unbounded_nodes(model, samples, report),
                              activation_type=tools.QuantType.QInt8, weight_type=tools.QuantType.QInt8)  # fmt: skip
    return onnx.load(target, load_external_data=False)


def _unbounded_nodes(model: ir.Model, samples: Mapping[str, Any], report: Report) -> list[str]:
    """Return the names of nodes with infinities or masking constants, which 256 steps cannot represent, and note
    them.
    """
    lifted = model.clone()
    convert_opset(lifted, OPSET)
    try:
        found = unbounded_outputs(lifted, list(islice(_feeds(model, samples), 2)))
    except ConvertError as error:
        report.note(
            f"whether numbers are too large for 8 bits could not be tested in float64: {error.sentence}",
            code="kept-wide",
        )
        return []
    nodes = [n for n in model.graph if n.outputs and n.outputs[0].name in found]
    if nodes:
        kinds = ", ".join(sorted({n.op_type for n in nodes}))
        report.note(
            f"kept in float32, not 8 bits, because their numbers are infinite or beyond 65504: {kinds}",
            code="kept-wide",
        )
    return [str(n.name) for n in nodes]


class _Samples:
    """Calibration data in the form of onnxruntime's tools: the next inputs, or None."""

    def __init__(self, model: ir.Model, samples: Mapping[str, Any]) -> None:
        self.rest = _feeds(model, samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rest, None)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return self.rest

    def __next__(self) -> dict[str, np.ndarray]:
        return next(self.rest)


def _feeds(model: ir.Model, samples: Mapping[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """Yield batches of samples if the first dim is dynamic. Otherwise the arrays have one more dim, and single samples
    are yielded.

    Raises `UsageError` for arrays that do not fit the model's inputs.
    """
    values = {str(v.name): v for v in model.graph.inputs if v.name not in model.graph.initializers}
    if set(samples) != set(values):
        raise UsageError(
            f"the calibration data is for {', '.join(sorted(samples))}, and the model's inputs are {', '.join(values)}",
            hint=saving_hint(values),
        )
    parts = {name: _split(value, np.asarray(samples[name])) for name, value in values.items()}
    for index in range(min(map(len, parts.values()))):
        yield {name: part[index] for name, part in parts.items()}


def _split(value: ir.Value, array: np.ndarray) -> Sequence[np.ndarray]:
    array = array.astype(value.dtype.numpy(), copy=False) if value.dtype is not None else array
    dims = list(value.shape) if value.shape is not None else []
    if array.ndim == len(dims) + 1:
        return list(array)
    fits = array.ndim == len(dims) and all(
        not isinstance(d, int) or d == n for d, n in zip(dims, array.shape, strict=False)
    )
    if not fits:
        raise UsageError(f"the calibration data for {value.name!r} has shape {list(array.shape)}, and the input {dims}")
    if dims and not isinstance(dims[0], int):
        return [array[i : i + _SAMPLES] for i in range(0, len(array), _SAMPLES)]
    return [array]


def _has_weights(model: ir.Model) -> bool:
    """Return whether a node multiplies by a weight of more than one dim."""
    nodes = (n for n in model.graph if n.op_type in _DYNAMIC and n.domain == "")
    return any(constant(n.inputs[1]) is not None and (rank(n.inputs[1]) or 0) > 1 for n in nodes)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the tools' log messages, and undo their changes of the root logger.

    onnxruntime 1.32 calls `logging.basicConfig(level=INFO)` when its quantizers are imported. Every library
    would log to stderr after that, in the user's program too.
    """
    before, level, handlers = logging.root.manager.disable, logging.root.level, logging.root.handlers[:]
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        logging.disable(before)
