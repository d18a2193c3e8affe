"""Writes a lowered float32 model in float16 or bfloat16: narrow operators where possible, with casts around the others.

A run in float64 finds the nodes that cannot be narrowed (`convert/reference/half_precision.py`). Others stay wide
because ONNX does not allow the dtype, or because the installed onnxruntime has no kernel. For float16, onnxruntime
computes what it lacks in float32 by itself; a bfloat16 file does not load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from convert.errors import ConvertError, UsageError
from convert.graph import OPSET, register_initializer
from convert.graph.shape_inference import SMALL, subgraphs
from convert.graph.tensors import dims_of, lazy_tensor
from convert.graph.values import constant
from convert.outcome.report import Report
from convert.parity.inputs.feeds import generate_feeds
from convert.passes.opset.convert import convert_opset
from convert.reference.half_precision import largest_finite, wide_outputs

from .runtimes.kernel_dtypes import has_kernel, slot_dtypes

MIN_OPSET = 13
_DTYPES = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}
_FLOAT = ir.DataType.FLOAT
# Attributes with the dtype of a result.
_RESULT = {"Cast": "to", "EyeLike": "dtype", "RandomNormal": "dtype", "RandomUniform": "dtype",
           "RandomNormalLike": "dtype", "RandomUniformLike": "dtype"}  # fmt: skip
# These pass numbers on in the dtype of their input.
_HANDING_ON = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape", "Slice"}
    | {"Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
_SHOWN = 6


def narrow_floats(model: ir.Model, dtype: str, opset: int, keep_io: bool, report: Report) -> None:
    """Change a lowered float32 `model` in place so that it computes in `dtype` where possible, and note where it does
    not.

    keep_io: keep inputs and outputs float32. A bfloat16 model always keeps them, because numpy lacks the dtype.
    Raises `UsageError` below opset 13.
    """
    check_opset(opset, f"--dtype {dtype}")
    kept = _reasons(model, dtype, opset, report)
    ends = keep_io or dtype == "bfloat16"
    if ends and not keep_io:
        report.note("inputs and outputs stay float32: numpy has no bfloat16 to feed", code="kept-wide")
    writer = _Narrowing(model, _DTYPES[dtype], kept, ends)
    writer.narrow()
    _note_kept(writer.wide, dtype, report)
    if not ends:
        changed = {str(v.name): v.dtype for v in (*model.graph.inputs, *model.graph.outputs)}
        for tensors in (report.inputs, report.outputs):
            tensors[:] = [replace(t, dtype=dtype) if changed.get(t.name) == _DTYPES[dtype] else t for t in tensors]


def check_opset(opset: int, asked: str) -> None:
    """Raise `UsageError` for an opset older than `asked` needs."""
    if opset < MIN_OPSET:
        raise UsageError(f"{asked} takes opset {MIN_OPSET}, and {opset} was asked for", hint="leave out --opset")


def _reasons(model: ir.Model, dtype: str, opset: int, report: Report) -> dict[str, str]:
    """Return the reason for each node that cannot be narrowed, by its first output."""
    lifted = model.clone()
    convert_opset(lifted, OPSET)
    try:
        return wide_outputs(lifted, [f.arrays for f in generate_feeds(lifted, 2)], dtype)
    except ConvertError as error:
        report.note(
            f"which operators need more than {dtype} could not be tested in float64: {error.sentence}", code="kept-wide"
        )
        return {}


def _note_kept(wide: Mapping[ir.Node, str], dtype: str, report: Report) -> None:
    causes = Counter((node.op_type, reason) for node, reason in wide.items() if reason)
    lines = [f"{count} × {name}: {reason}" if count > 1 else f"{name}: {reason}" for (name, reason), count in
            causes.most_common()]  # fmt: skip
    if lines:
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        report.note(f"kept in float32, not {dtype}: {'; '.join(lines[:_SHOWN])}{more}", code="kept-wide")


class _Narrowing:
    """A model while it is narrowed: the nodes that stay wide with the reason, and the casts inserted so far."""

    def __init__(self, model: ir.Model, dtype: ir.DataType, kept: Mapping[str, str], ends: bool) -> None:
        self.graph, self.dtype, self.ends = model.graph, dtype, ends
        self.opset = model.graph.opset_imports.get("", OPSET)
        self.wide: dict[ir.Node, str] = {}
        self.narrowed: set[ir.Value] = set()
        self.casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        for node in self.graph:
            reason = self._reason(node, kept)
            if reason is not None:
                self.wide[node] = reason
            else:
                slots = zip(node.outputs, self._slots(node, inputs=False), strict=False)
                self.narrowed.update(v for v, able in slots if able and v.dtype == _FLOAT)

    def narrow(self) -> None:
        """Set the dtypes of values, and insert casts where a reader needs another."""
        first = next(iter(self.graph), None)
        inputs = [v for v in self.graph.inputs if v.dtype == _FLOAT and v.name not in self.graph.initializers]
        if not self.ends:
            self.narrowed.update(inputs)
        for node in list(self.graph):
            if node not in self.wide:
                self._narrow_attributes(node)
        values = [*inputs, *(v for n in self.graph for v in n.outputs if v.dtype == _FLOAT)]
        outputs = {v: v.name for v in values if v.is_graph_output()}
        for value in values:
            self._connect(value, first)
        for value in list(self.graph.initializers.values()):
            if value.dtype == _FLOAT:
                self._connect_weight(value, first)
        for value, name in outputs.items():
            self._finish(value, str(name))

    def _reason(self, node: ir.Node, kept: Mapping[str, str]) -> str | None:
        """Return why a node stays wide, or None if it is narrowed. The text is empty if the reason needs no note."""
        floats = [v for v in (*node.inputs, *node.outputs) if v is not None and v.dtype == _FLOAT]
        if any(subgraphs(a) for a in node.attributes.values()):
            return "it has graphs of its own"
        if not floats or (node.domain and not any(slot_dtypes(node.op_type, node.domain))):
            return ""
        if node.outputs[0].name in kept:
            return kept[str(node.outputs[0].name)]
        if any(isinstance(v.type, (ir.SequenceType, ir.OptionalType)) for v in (*node.inputs, *node.outputs) if v):
            return "sequences stay as they are"
        narrow_inputs = self._slots(node, inputs=True)
        able = [ok for v, ok in zip(node.inputs, narrow_inputs, strict=False) if v is not None and v.dtype == _FLOAT]
        able += [ok for v, ok in zip(node.outputs, self._slots(node, inputs=False), strict=False) if v.dtype == _FLOAT]
        if not any(able):
            return f"ONNX does not have it in {self.dtype.name.lower()}"
        if "Quantize" in node.op_type:
            return "it quantizes"
        if self.dtype == ir.DataType.BFLOAT16 and node.op_type in _HANDING_ON and self._hands_on_weights(node):
            return None if has_kernel(node.op_type, self.dtype) else ""
        if self.dtype == ir.DataType.BFLOAT16 and node.op_type in (*_HANDING_ON, *_RESULT):
            return ""
        if not has_kernel(node.op_type, self.dtype, node.domain) and (
            self.dtype == ir.DataType.BFLOAT16 or not has_kernel(node.op_type, _FLOAT, node.domain)
        ):
            return "onnxruntime has no kernel"
        return None

    def _hands_on_weights(self, node: ir.Node) -> bool:
        """Return whether it passes on a weight, which is then stored in half the bytes."""
        floats = [v for v in node.inputs if v is not None and v.dtype == _FLOAT]
        return bool(floats) and all(constant(v) is not None for v in floats)

    def _slots(self, node: ir.Node, *, inputs: bool) -> Iterator[bool]:
        """Yield, for each input or output of a node, whether it may have the narrow dtype."""
        wanted = f"tensor({self.dtype.name.lower()})"
        slots = self._slot_dtypes(node)[0 if inputs else 1]
        for index in range(len(node.inputs if inputs else node.outputs)):
            yield wanted in slots[min(index, len(slots) - 1)]

    def _slot_dtypes(self, node: ir.Node) -> tuple[Sequence[Collection[str]], Sequence[Collection[str]]]:
        """Return the dtypes that inputs and outputs may have; the last stands for all further ones."""
        if node.domain:
            return slot_dtypes(node.op_type, node.domain)
        schema = onnx.defs.get_schema(node.op_type, self.opset, "")
        allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        inputs, outputs = (
            [allowed.get(slot.type_str, {slot.type_str}) for slot in slots] for slots in (schema.inputs, schema.outputs)
        )
        return inputs, outputs

    def _narrow_attributes(self, node: ir.Node) -> None:
        name = _RESULT.get(node.op_type)
        if name is not None and node.outputs[0] in self.narrowed:
            node.attributes[name] = ir.AttrInt64(name, int(self.dtype))
        elif node.op_type == "ConstantOfShape" and node.outputs[0] in self.narrowed:
            given = node.attributes.get("value")
            content = np.zeros(1, np.float32) if given is None else given.as_tensor().numpy()
            node.attributes["value"] = ir.AttrTensor("value", ir.tensor(content.astype(self.dtype.numpy()), self.dtype))

    def _wants_narrow(self, use: Any) -> bool:
        """Return whether a reader takes the narrow dtype at that input."""
        if use.node.graph is not self.graph or use.node in self.wide:
            return False
        return list(self._slots(use.node, inputs=True))[use.idx]

    def _connect(self, value: ir.Value, first: ir.Node | None) -> None:
        narrow = value in self.narrowed
        for use in list(value.uses()):
            if self._wants_narrow(use) != narrow:
                cast = self._cast(value, _FLOAT if narrow else self.dtype, first)
                use.node.replace_input_with(use.idx, cast)
        if narrow:
            value.type = ir.TensorType(self.dtype)

    def _connect_weight(self, value: ir.Value, first: ir.Node | None) -> None:
        """Give a weight the dtypes that its readers need; a large one is stored once, narrow if it is representable."""
        tensor = value.const_value
        if tensor is None:
            return
        narrow = [use for use in value.uses() if self._wants_narrow(use)]
        wide = [use for use in value.uses() if not self._wants_narrow(use)]
        fits = tensor.nbytes > SMALL and float(np.abs(tensor.numpy()).max(initial=0.0)) <= largest_finite(
            self.dtype.name.lower()
        )
        if not narrow and not (wide and fits):
            return
        dtype = self.dtype
        small = lazy_tensor(dtype, dims_of(tensor), lambda: tensor.numpy().astype(dtype.numpy()), tensor.name)
        other = register_initializer(self.graph, f"{value.name}.{dtype.name.lower()}", small)
        for use in narrow:
            use.node.replace_input_with(use.idx, other)
        if wide and fits:
            cast = self._cast(other, _FLOAT, first)
            for use in wide:
                use.node.replace_input_with(use.idx, cast)
        if not value.uses() and not value.is_graph_output():
            self.graph.initializers.pop(str(value.name))

    def _cast(self, value: ir.Value, dtype: ir.DataType, first: ir.Node | None) -> ir.Value:
        if (value, dtype) in self.casts:
            return self.casts[value, dtype]
        node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", dtype)], num_outputs=1)
        made, before = node.outputs[0], value.producer()
        made.name, made.type = f"{value.name}.{dtype.name.lower()}", ir.TensorType(dtype)
        made.shape, node.name = value.shape, f"{value.name}.to_{dtype.name.lower()}"
        if before is not None:
            self.graph.insert_after(before, node)
        elif first is not None:
            self.graph.insert_before(first, node)
        self.casts[value, dtype] = made
        return made

    def _finish(self, value: ir.Value, name: str) -> None:
        """Give an output its final dtype under its name; one kept for its range stays float32."""
        narrow = value in self.narrowed
        before = value.producer()
        too_large = before is not None and self.wide.get(before, "").startswith("numbers up to")
        if before is None or narrow != self.ends or (not narrow and too_large):
            return
        value.name = f"{name}.{self.dtype.name.lower() if narrow else 'wide'}"
        made = self._cast(value, _FLOAT if narrow else self.dtype, None)
        made.name = name
        for index, output in enumerate(self.graph.outputs):
            if output is value:
                self.graph.outputs[index] = made
