"""Gives the marked tensors of a TensorFlow Lite file the scales of the model, and its operators integer kernels.

The scales of a mark are first passed backwards through operators that only move elements, then forwards. An operator
whose inputs and output are integers gets its integer kernel, if TensorFlow Lite has one for these scales. All other
operators compute on real numbers, between DEQUANTIZE and QUANTIZE. A weight becomes an integer tensor only if its
integers give exactly the numbers in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from .file_objects import LiteFile
from .kernel_rules import COMPUTING, FIXED, MOVING, SAME, VERSIONS, Kernel
from .steps import Steps, mark_number
from .weights import KnownWeights, quantized_bias

_TYPES = {"int8": schema.TensorType.INT8, "int16": schema.TensorType.INT16, "uint8": schema.TensorType.UINT8}
_LARGE = 64
"""A constant with fewer numbers is stored unchanged, because two tensors and an operator are not smaller."""
_COARSER = 1.01
"""Factor by which the steps that a kernel prescribes may be coarser than the steps of the model."""


def quantize_file(
    data: bytes, marks: Sequence[Steps], weights: KnownWeights, ends: Mapping[str, Mapping[str, str]]
) -> bytes:
    """Return a file whose marked tensors are integers.

    ends: dtypes of the inputs and outputs that are integers in the model: by "inputs" or "outputs", then by name.
    """
    file = LiteFile(data)
    for number in range(len(file.model.subgraphs)):
        _Rewriter(file, number, marks, weights, ends).rewrite()
    return file.packed()


@dataclass
class _Rewriter:
    """Rewrites the operators of one subgraph.

    wanted: the scales and zero points to which every reader of a real tensor rounds it. integers: the integer form of
    each tensor.
    """

    file: LiteFile
    subgraph: int
    marks: Sequence[Steps]
    weights: KnownWeights
    ends: Mapping[str, Mapping[str, str]]
    wanted: dict[int, Steps] = field(default_factory=dict)
    integers: dict[int, tuple[int, Steps]] = field(default_factory=dict)
    written: list[Any] = field(default_factory=list)
    made: set[int] = field(default_factory=set)
    requantized: dict[tuple[int, Steps], int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    @cached_property
    def graph(self) -> Any:
        return self.file.model.subgraphs[self.subgraph]

    def rewrite(self) -> None:
        operators = list(self.graph.operators)
        self.readers: dict[int, list[Any]] = {}
        for operator in operators:
            for tensor in {int(t) for t in operator.inputs if t >= 0}:
                self.readers.setdefault(tensor, []).append(operator)
        self.given = set(map(int, self.graph.inputs))
        self.taken = set(map(int, self.graph.outputs))
        self.names = self.file.io_names(self.subgraph)
        for operator in reversed(operators):
            self._want(operator)
        self._take_inputs()
        for operator in operators:
            self._join_means(operator)
            self._write(operator)
        self._give_outputs()
        self.graph.operators = self.written
        self.file.drop_unused(self.subgraph)

    # -- what is wanted -----------------------------------------------------------------------------------------------

    def mark_of(self, operator: Any) -> tuple[int, Steps] | None:
        """Return the tensor that an operator marks, with its scale and zero point."""
        if self.file.name(operator) != "MAXIMUM":
            return None
        for place, tensor in enumerate(operator.inputs):
            content = self.file.constant(self.subgraph, tensor)
            if content is not None and content.size == 1 and content.dtype == np.float32:
                number = mark_number(content.ravel()[0])
                if number is not None and number < len(self.marks):
                    return int(operator.inputs[1 - place]), self.marks[number]
        return None

    def _want(self, operator: Any) -> None:
        """Record the scale for the input of an operator, if no other operator needs its real numbers."""
        marked = self.mark_of(operator)
        if marked is not None:
            tensor, steps = marked
            marks = [self.mark_of(other) for other in self.readers[tensor]]
            alike = all(mark is not None and mark == (tensor, steps) for mark in marks)
            if alike and tensor not in self.taken and tensor not in self.given and not self._is_constant(tensor):
                self.wanted[tensor] = steps
            return
        wanted = self.wanted.get(int(operator.outputs[0])) if len(operator.outputs) == 1 else None
        if wanted is None or not self._moves(operator, wanted):
            return
        for tensor in self._data(operator):
            alone = self.readers[tensor] == [operator] and tensor not in self.taken and tensor not in self.given
            if alone and not self._is_constant(tensor) and not self._is_marked(tensor):
                self.wanted[tensor] = wanted

    def _is_marked(self, tensor: int) -> bool:
        maker = self.makers.get(tensor)
        return maker is not None and self.mark_of(maker) is not None

    @cached_property
    def makers(self) -> dict[int, Any]:
        return {int(t): operator for operator in self.graph.operators for t in operator.outputs}

    def _is_constant(self, tensor: int) -> bool:
        return self.file.constant(self.subgraph, tensor) is not None

    def _moves(self, operator: Any, steps: Steps) -> bool:
        """Return whether an operator only moves elements, and has a kernel for integers with this scale."""
        dtypes = MOVING.get(self.file.name(operator), (None, ()))[1]
        return steps.dtype in dtypes and not self.file.activation(operator)

    def _data(self, operator: Any) -> list[int]:
        places = MOVING[self.file.name(operator)][0]
        found = operator.inputs if places is None else [operator.inputs[i] for i in places if i < len(operator.inputs)]
        return list(dict.fromkeys(int(t) for t in found))

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _take_inputs(self) -> None:
        """Change those inputs to integers that have integer dtypes in the model."""
        for name, tensor in self.names[0].items():
            dtype = self.ends["inputs"].get(name)
            marks = [self.mark_of(operator) for operator in self.readers.get(tensor, ())]
            if dtype is None or not marks or marks[0] is None:
                continue
            steps = marks[0][1]
            if dtype == "uint8":
                self._set_steps(tensor, Steps(steps.scale, steps.zero + 128, "int8"), dtype)
                self.integers[tensor] = self._requantize(tensor, steps), steps
            else:
                self._set_steps(tensor, steps)
                self.integers[tensor] = tensor, steps

    def _give_outputs(self) -> None:
        """Replace outputs by integers if they are integers in the model, and by real numbers otherwise."""
        replaced: dict[int, int] = {}
        for name, tensor in self.names[1].items():
            dtype = self.ends["outputs"].get(name)
            if dtype is None or tensor not in self.integers:
                continue
            stored, steps = self.integers[tensor]
            if dtype == "uint8":
                shifted = Steps(steps.scale, steps.zero + 128, "int8")
                replaced[tensor] = self._new(f"{name}_uint8", tensor, shifted, dtype)
                self._append("QUANTIZE", [stored], [replaced[tensor]])
            else:
                replaced[tensor] = stored
        self.file.replace_outputs(self.subgraph, replaced)
        for tensor in map(int, self.graph.outputs):
            self._real(tensor)

    # -- operators ----------------------------------------------------------------------------------------------------

    def _write(self, operator: Any) -> None:
        marked = self.mark_of(operator)
        if marked is not None:
            tensor, steps = marked
            self.integers[int(operator.outputs[0])] = self._in_steps(tensor, steps), steps
        elif not (self._write_computing(operator) or self._write_moving(operator)):
            operator.inputs = [self._real(int(t)) for t in operator.inputs]
            self.written.append(operator)
            self.made |= {int(t) for t in operator.outputs}

    def _join_means(self, operator: Any) -> None:
        """Join two successive means over different axes into one mean over all of these axes, which rounds once.

        On real numbers the means are separate, because sums over several axes are less exact (`ops/sums.py`).
        """
        inner = self.makers.get(int(operator.inputs[0])) if len(operator.inputs) else None
        if inner is None or self.file.name(operator) not in ("MEAN", "SUM") or not inner.builtinOptions:
            return
        if self.file.name(inner) != self.file.name(operator) or not inner.builtinOptions.keepDims:
            return
        tensor, source = int(operator.inputs[0]), int(inner.inputs[0])
        axes = [self.file.constant(self.subgraph, o.inputs[1]) for o in (inner, operator)]
        wanted, alone = int(operator.outputs[0]) in self.wanted, self.readers[tensor] == [operator]
        if any(a is None for a in axes) or not (wanted and alone and source in self.integers) or tensor in self.taken:
            return
        both = np.concatenate([np.ravel(a) for a in axes])  # type: ignore[arg-type]
        operator.inputs = [source, self.file.add_constant(self.subgraph, "axes", both.astype(np.int32), np.zeros(0))]

    def _write_moving(self, operator: Any) -> bool:
        if self.file.name(operator) not in MOVING:
            return False
        data = self._data(operator)
        given = {self.integers[t][1] for t in data if t in self.integers}
        stored = all(t in self.integers or self._is_constant(t) for t in data)
        steps = next(iter(given)) if len(given) == 1 and stored else self.wanted.get(int(operator.outputs[0]))
        if steps is None or not self._moves(operator, steps):
            return False
        constants = [self._constant_in(t, steps) for t in data if self._is_constant(t)]
        if any(c is None for c in constants) and steps != self.wanted.get(int(operator.outputs[0])):
            return False
        moved = {t: self._in_steps(t, steps) for t in data}
        operator.inputs = [moved.get(int(t), int(t)) for t in operator.inputs]
        self._give(operator, steps)
        return True

    def _write_computing(self, operator: Any) -> bool:
        name, output = self.file.name(operator), int(operator.outputs[0])
        wanted = self.wanted.get(output)
        if name not in COMPUTING or wanted is None or len(operator.outputs) != 1:
            return False
        kernel = COMPUTING[name]
        data = [int(operator.inputs[i]) for i in kernel.data]
        steps = [self._steps_of(t) for t in data]
        known = [s for s in steps if s is not None]
        if len(known) < len(steps) or any(s.dtype != wanted.dtype for s in known) or wanted.dtype not in kernel.dtypes:
            return False
        if any(own.zero for place, own in zip(kernel.data, known, strict=True) if place in kernel.centred):
            return False
        given = self._result_steps(name, known[0], wanted)
        weighted = self._weighted(operator, kernel, known[0])
        if given is None or weighted is None:
            return False
        inputs = list(map(int, operator.inputs))
        for place, tensor, own in zip(kernel.data, data, known, strict=True):
            inputs[place] = self._in_steps(tensor, own)
        for place, tensor in weighted.items():
            inputs[place] = tensor
        operator.inputs = inputs
        self._give(operator, given, wanted)
        self._set_version(operator, wanted.dtype, per_channel=self._is_per_channel(weighted))
        return True

    def _is_per_channel(self, weighted: Mapping[int, int]) -> bool:
        tensors = [self.graph.tensors[t] for t in weighted.values()]
        return any(t.type == schema.TensorType.INT8 and len(t.quantization.scale) > 1 for t in tensors)

    def _steps_of(self, tensor: int) -> Steps | None:
        """Return the scale and zero point that a real tensor, which may be constant, is known to have."""
        if tensor in self.integers:
            return self.integers[tensor][1]
        content = self.file.constant(self.subgraph, tensor)
        return None if content is None else self.weights.steps_of(content)

    def _result_steps(self, name: str, given: Steps, wanted: Steps) -> Steps | None:
        """Return the scale of a kernel's result, if it is as good as the wanted one."""
        if name in FIXED:
            prescribed = FIXED[name].get(wanted.dtype)
        elif name in SAME:
            prescribed = given
        else:
            return wanted
        if prescribed is None or prescribed.scale > _COARSER * wanted.scale:
            return None
        return prescribed

    def _weighted(self, operator: Any, kernel: Kernel, given: Steps) -> dict[int, int] | None:
        """Return the weight and the bias of an operator as integers, by input index; None if they have no
        integer form.
        """
        if kernel.weight is None:
            return {}
        content = self.file.constant(self.subgraph, operator.inputs[kernel.weight])
        found = None if content is None else self.weights.integers_of(content, kernel.axis)
        if found is None:
            return None
        raw, scale = found
        name = self.graph.tensors[operator.inputs[kernel.weight]].name.decode()
        at_bias = kernel.bias
        result: dict[int, int] = {}
        if at_bias is not None and len(operator.inputs) > at_bias and operator.inputs[at_bias] >= 0:
            bias = self.file.constant(self.subgraph, operator.inputs[at_bias])
            sums = None if bias is None else quantized_bias(bias, given, scale)
            if sums is None:
                return None
            old = self.graph.tensors[operator.inputs[at_bias]].name.decode()
            result[at_bias] = self.file.add_constant(self.subgraph, old, *sums, axis=0)
        result[kernel.weight] = self.file.add_constant(self.subgraph, name, raw, scale, axis=kernel.axis)
        return result

    def _give(self, operator: Any, steps: Steps, wanted: Steps | None = None) -> None:
        """Append an operator whose results are integers."""
        outputs = []
        for tensor in map(int, operator.outputs):
            name = self.graph.tensors[tensor].name.decode()
            stored = self._new(name, tensor, steps)
            outputs.append(stored)
            self.integers[tensor] = stored, steps
        operator.outputs = outputs
        self.written.append(operator)
        self._set_version(operator, steps.dtype)
        for tensor, stored in zip(list(self.integers)[-len(outputs) :], outputs, strict=True):
            if wanted is not None and wanted != steps:
                self.integers[tensor] = self._requantize(stored, wanted), wanted

    # -- tensors ------------------------------------------------------------------------------------------------------

    def _real(self, tensor: int) -> int:
        """Return the real-valued form of a tensor: the tensor itself if some operator computes it."""
        if tensor < 0 or tensor in self.made:
            return tensor
        if tensor in self.integers:
            self._append("DEQUANTIZE", [self.integers[tensor][0]], [tensor])
            return tensor
        return self._stored_weight(tensor)

    def _stored_weight(self, tensor: int) -> int:
        """Return a constant, computed from its integers if it has them."""
        content = self.file.constant(self.subgraph, tensor)
        if content is None or content.dtype != np.float32 or content.size < _LARGE:
            return tensor
        if tensor in self.numbers:
            return self.numbers[tensor]
        found = self.weights.stored_as(content)
        if found is None:
            return tensor
        name = self.graph.tensors[tensor].name.decode()
        stored = self.file.add_constant(self.subgraph, f"{name}_stored", *found)
        numbers = self._new(f"{name}_numbers", tensor)
        self._append("DEQUANTIZE", [stored], [numbers])
        self.numbers[tensor] = numbers
        return numbers

    def _in_steps(self, tensor: int, steps: Steps) -> int:
        """Return the integers of a tensor, at this scale."""
        if tensor in self.integers:
            stored, own = self.integers[tensor]
            return stored if own == steps else self._requantize(stored, steps)
        content = self.file.constant(self.subgraph, tensor)
        if content is None:
            return self._requantize(self._real(tensor), steps)
        exact = self.weights.exactly(content, steps)
        limits = np.iinfo(steps.dtype)
        raw = np.clip(np.round(content / np.float32(steps.scale)) + steps.zero, limits.min, limits.max)
        raw = (raw if exact is None else exact).astype(steps.dtype)
        name = self.graph.tensors[tensor].name.decode()
        return self.file.add_constant(self.subgraph, name, raw, np.array([steps.scale], np.float32), zero=steps.zero)

    def _constant_in(self, tensor: int, steps: Steps) -> np.ndarray | None:
        content = self.file.constant(self.subgraph, tensor)
        return None if content is None else self.weights.exactly(content, steps)

    def _requantize(self, tensor: int, steps: Steps) -> int:
        """Append a QUANTIZE of real numbers, or of integers at another scale."""
        if (tensor, steps) not in self.requantized:
            name = self.graph.tensors[tensor].name.decode()
            made = self._new(f"{name}_{steps.dtype}", tensor, steps)
            self._append("QUANTIZE", [tensor], [made])
            self.requantized[tensor, steps] = made
        return self.requantized[tensor, steps]

    def _new(self, name: str, like: int, steps: Steps | None = None, dtype: str = "") -> int:
        tensor = self.file.add_like(self.subgraph, name, like)
        if steps is not None:
            self._set_steps(tensor, steps, dtype)
        return tensor

    def _set_steps(self, tensor: int, steps: Steps, dtype: str = "") -> None:
        self.graph.tensors[tensor].type = _TYPES[dtype or steps.dtype]
        self.graph.tensors[tensor].quantization = self.file.parameters(np.array([steps.scale]), steps.zero)

    def _append(self, name: str, inputs: list[int], outputs: list[int]) -> None:
        self.made |= set(outputs)
        types = [self.graph.tensors[t].type for t in (*inputs, *outputs)]
        version = 3 if schema.TensorType.INT16 in types else 2
        self.written.append(self.file.new_operator(name, inputs, outputs, version))

    def _set_version(self, operator: Any, dtype: str, *, per_channel: bool = False) -> None:
        name = self.file.name(operator)
        plain, wide, channels = VERSIONS.get(name, (1, 1, 1))
        version = wide if dtype == "int16" else plain
        self.file.set_version(operator, max(version, channels if per_channel else 1))
