"""Stores weights in 8 or 4 bits by onnxruntime's own tools, and activations in 8 bits with calibration data.

Activations that meet a weight are quantized at run time if there is no calibration data (DynamicQuantizeLinear), per
tensor. With it, every operator that has an 8-bit form gets QuantizeLinear and DequantizeLinear around it. Weights have
a scale per output channel, or per block for 4 bits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from convert.errors import ConvertError, UsageError
from convert.files.scratch import scratch_folder
from convert.graph import OPSET, register_initializer
from convert.graph.tensors import transposed_tensor
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


@dataclass(frozen=True)
class Blocks:
    """How weights are stored in 4 bits: blocks of `size` with a scale, and a zero point if `zero_points`.

    accuracy_level: the attribute of MatMulNBits; 4 lets onnxruntime round the activations to 8 bits in such blocks.
    """

    size: int = 32
    zero_points: bool = False
    accuracy_level: int = 0


def quantize_file(
    model: ir.Model, path: Path, how: str, samples: Mapping[str, Any], blocks: Blocks, report: Report
) -> None:
    """Write a lowered float32 `model` to `path`, quantized.

    how: `int8`, or `int4` for matrix products with a weight. samples: arrays for the inputs, by name. Raises
    `ConvertError` if onnxruntime's tools reject the model, and `UsageError` if nothing would be narrower.
    """
    if how == "int4":
        if samples:
            raise UsageError("--quantize int4 stores weights, and takes no --calibrate", hint="leave it out")
        _write_gemms_as_products(model)
    weighted = _count_weighted(model, ("MatMul",) if how == "int4" else ("MatMul", "Gemm", "Conv"))
    if not weighted and not samples:
        raise UsageError(f"the model has no weights that --quantize {how} stores narrower", hint="leave it out")
    for number, node in enumerate(model.graph):
        node.name = node.name or f"node_{number}"  # the tools identify nodes by name
    import_onnxruntime()
    with scratch_folder() as folder, _quiet():
        plain = folder / "float.onnx"
        write_model(model, plain, Report("quantize"))
        try:
            proto = _four_bits(plain, blocks) if how == "int4" else _eight_bits(plain, folder, samples, model, report)
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


def _four_bits(plain: Path, blocks: Blocks) -> onnx.ModelProto:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    tool = MatMulNBitsQuantizer(
        onnx.load(plain), bits=4, block_size=blocks.size, is_symmetric=not blocks.zero_points,
        accuracy_level=blocks.accuracy_level or None,
    )  # fmt: skip
    tool.process()
    return tool.model.model


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


def _count_weighted(model: ir.Model, operators: Sequence[str]) -> int:
    """Return how many nodes multiply by a weight of more than one dim."""
    nodes = (n for n in model.graph if n.op_type in operators and n.domain == "")
    return sum(constant(n.inputs[1]) is not None and (rank(n.inputs[1]) or 0) > 1 for n in nodes)


def _write_gemms_as_products(model: ir.Model) -> None:
    """Rewrite each dense layer as MatMul and Add, because the 4-bit operator replaces a MatMul."""
    for node in [n for n in model.graph if n.op_type == "Gemm" and n.domain == ""]:
        weight, numbers = constant(node.inputs[1]), node.attributes
        plain = numbers.get_float("alpha", 1.0) == 1 and numbers.get_float("beta", 1.0) == 1
        if weight is None or not plain or numbers.get_int("transA"):
            continue
        x, w, y, bias = node.inputs[0], node.inputs[1], node.outputs[0], [*node.inputs, None][2]
        if numbers.get_int("transB"):
            turned = transposed_tensor(weight, (1, 0))
            w = register_initializer(model.graph, f"{w.name}.transposed", turned)  # type: ignore[union-attr]
        product = ir.Node("", "MatMul", [x, w], num_outputs=1, name=f"{node.name}.product")
        last = product if bias is None else ir.Node("", "Add", [product.outputs[0], bias], num_outputs=1)
        last.name = node.name if bias is not None else product.name
        for made in (product, last):
            made.outputs[0].name, made.outputs[0].type = f"{y.name}.product", y.type
            made.outputs[0].shape = y.shape
            made.metadata_props.update(node.metadata_props)
        model.graph.insert_before(node, [product] if bias is None else [product, last])
        name = y.name
        ir.convenience.replace_all_uses_with(y, last.outputs[0], replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        last.outputs[0].name = name
    for name, value in list(model.graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            model.graph.initializers.pop(name)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the tools' log messages, and undo their changes of the root logger.

    onnxruntime 1.32 calls `logging.basicConfig(level=INFO)` when its quantizer for 4 bits is imported. Every library
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
