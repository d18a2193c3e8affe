"""The arithmetic of recurrent cells: finds which weights compute which gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from convert.patterns.recurrent.linear_terms import WeightSlice, as_linear_terms, source_columns

Columns = tuple[ir.Value, int, int]
"""A value and a range of its columns."""

_ACTIVATIONS = {"Sigmoid", "Tanh", "Relu", "Softsign", "Softplus"}


@dataclass
class RecurrentCell:
    """A recurrent operator of ONNX with one part per gate, in ONNX's order; `hidden` is the output of an iteration."""

    operator: str
    hidden: ir.Value
    units: int
    inputs: list[WeightSlice]
    hiddens: list[WeightSlice]
    input_biases: list[list[WeightSlice]]
    hidden_biases: list[list[WeightSlice]]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Gate:
    """x·W + h·R + b; each part may be missing."""

    inputs: list[WeightSlice]
    hiddens: list[WeightSlice]
    biases: list[WeightSlice]

    def negated(self) -> Gate:
        """Return −(x·W + h·R + b)."""
        parts = (self.inputs, self.hiddens, self.biases)
        return Gate(*([replace(part, sign=-part.sign) for part in one] for one in parts))


def match_lstm(x: ir.Value, h: ir.Value, c: ir.Value, h_new: ir.Value, c_new: ir.Value) -> RecurrentCell | None:
    """Match h' = o·tanh(c'), c' = f·c + i·tanh(g); ONNX's order is i, o, f, g."""
    for out, squashed in _operand_pairs(h_new, "Mul"):
        last, inner = _match_activation(squashed)
        if inner is None or inner[0] is not c_new:
            continue
        for kept, added in _operand_pairs(c_new, "Add"):
            forget = next((a for a, b in _operand_pairs(kept, "Mul") if b is c), None)
            if forget is None:
                continue
            for i, candidate in _operand_pairs(added, "Mul"):
                found = _match_gates(x, h, [i, out, forget, candidate])
                if found is None:
                    continue
                gates, names = found
                if names[0] != names[1] or names[0] != names[2]:
                    continue
                cell = _build_cell("LSTM", h_new, gates, [names[0], names[3], last])
                if cell is not None and (names[0] != "Tanh"):
                    return cell
    return None


def match_gru(x: ir.Value, h: ir.Value, h_new: ir.Value) -> RecurrentCell | None:
    """Match h' = z·h + (1 - z)·g; g uses r·(h·R + b) or (r·h)·R, which `linear_before_reset` distinguishes."""
    for update, candidate, flipped in _mixtures(h, h_new):
        name, inner = _match_activation(candidate)
        if inner is None:
            continue
        found = _match_reset_before(x, h, update, inner)
        for rest, resetting in _operand_pairs(inner[0], "Add"):
            found = found or _match_reset_after(x, h, update, rest, resetting)
        if found is None:
            continue
        gates, hidden_bias, names, after = found
        if flipped:  # 1 − sigmoid(x) = sigmoid(−x)
            if names[0] != "Sigmoid":
                continue
            gates = [gates[0].negated(), *gates[1:]]
        cell = _build_cell("GRU", h_new, gates, [names[0], name], hidden_bias)
        if cell is not None and names[0] == names[1]:
            cell.attributes["linear_before_reset"] = int(after)
            return cell
    return None


def _mixtures(h: ir.Value, h_new: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, bool]]:
    """Yield the update gate, the candidate, and whether the gate is that of the candidate, for each way to read
    h' = z·h + (1 − z)·g, g + z·(h − g) or (1 − z)·h + z·g.
    """
    for one, other in _operand_pairs(h_new, "Add"):
        for gate, factor in _operand_pairs(one, "Mul"):
            if factor is h:
                yield from ((gate, b, False) for a, b in _operand_pairs(other, "Mul") if _is_complement(a, gate))
                yield from ((a, b, True) for a, b in _operand_pairs(other, "Mul") if _is_complement(gate, a))
            gap = factor.producer()
            if gap is not None and gap.op_type == "Sub" and not gap.domain and tuple(gap.inputs) == (h, other):
                yield gate, other, False


def match_simple_rnn(x: ir.Value, h: ir.Value, h_new: ir.Value) -> RecurrentCell | None:
    """Match h' = tanh(x·W + h·R + b)."""
    found = _match_gates(x, h, [h_new])
    return None if found is None else _build_cell("RNN", h_new, found[0], found[1])


def _match_reset_after(x: ir.Value, h: ir.Value, update: ir.Value, rest: ir.Value, resetting: ir.Value) -> Any:
    inputs = _match_gate(as_linear_terms(rest), x, h)
    for reset, product in _operand_pairs(resetting, "Mul"):
        hiddens = _match_gate(as_linear_terms(product), x, h)
        if inputs is None or hiddens is None or inputs.hiddens or hiddens.inputs:
            continue
        found = _match_gates(x, h, [update, reset])
        if found is not None:
            gate = Gate(inputs.inputs, hiddens.hiddens, inputs.biases)
            return [*found[0], gate], hiddens.biases, found[1], True
    return None


def _match_reset_before(x: ir.Value, h: ir.Value, update: ir.Value, inner: Columns) -> Any:
    parts = as_linear_terms(inner[0], inner[1:]) or []
    states = [p for p in parts if p.source is not None and p.source is not x]
    if len(states) != 1 or states[0].source is None:
        return None
    for reset, state in _operand_pairs(states[0].source, "Mul"):
        found = _match_gates(x, h, [update, reset]) if state is h else None
        if found is not None:
            inputs, biases = [p for p in parts if p.source is x], [p for p in parts if p.source is None]
            return [*found[0], Gate(inputs, states, biases)], [], found[1], False
    return None


def _build_cell(
    operator: str, hidden: ir.Value, gates: Sequence[Gate], names: list[str], late: Sequence[WeightSlice] = ()
) -> RecurrentCell | None:
    """Return the cell of these gates if each has one weight for the input and one for the state, all of the same
    width.
    """
    if any(len(gate.inputs) != 1 or len(gate.hiddens) != 1 for gate in gates):
        return None
    inputs, hiddens = [gate.inputs[0] for gate in gates], [gate.hiddens[0] for gate in gates]
    units = inputs[0].width
    if any(p.width != units for p in (*inputs, *hiddens)) or any(p.height != units for p in hiddens):
        return None
    if any(p.height != inputs[0].height or p.dtype != inputs[0].dtype for p in inputs):
        return None
    # ONNX has two biases; adding up more than two would round.
    early = [gate.biases[:1] for gate in gates]
    later = [gate.biases[1:] for gate in gates]
    later[-1] = [*later[-1], *late]
    if any(len(biases) > 1 for biases in later) or (operator == "GRU" and len(gates[-1].biases) > 1):
        return None
    cell = RecurrentCell(operator, hidden, units, inputs, hiddens, early, later)
    defaults = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
    if names != defaults[operator]:
        cell.attributes["activations"] = names
    return cell


def _match_gates(x: ir.Value, h: ir.Value, values: Sequence[ir.Value]) -> tuple[list[Gate], list[str]] | None:
    """Match each value as an activation of x·W + h·R + b."""
    gates, names = [], []
    for value in values:
        name, inner = _match_activation(value)
        gate = None if inner is None else _match_gate(as_linear_terms(inner[0], inner[1:]), x, h)
        if gate is None:
            return None
        gates.append(gate)
        names.append(name)
    return gates, names


def _match_gate(parts: list[WeightSlice] | None, x: ir.Value, h: ir.Value) -> Gate | None:
    if parts is None or any(p.source is not None and p.source is not x and p.source is not h for p in parts):
        return None
    return Gate(
        [p for p in parts if p.source is x], [p for p in parts if p.source is h], [p for p in parts if p.source is None]
    )


def _match_activation(value: ir.Value | None) -> tuple[str, Columns | None]:
    """Return the activation that computes `value`, and its argument; one of several gates has a range of columns."""
    if value is None:
        return "", None
    made, start, stop = source_columns(value)
    node = made.producer()
    if node is None or node.op_type not in _ACTIVATIONS or node.domain or node.inputs[0] is None:
        return "", None
    return node.op_type, (node.inputs[0], start, stop)


def _operand_pairs(value: ir.Value | None, operator: str) -> list[tuple[ir.Value, ir.Value]]:
    node = value.producer() if value is not None else None
    if node is None or node.op_type != operator or node.domain or len(node.inputs) != 2:
        return []
    a, b = node.inputs
    return [] if a is None or b is None else [(a, b), (b, a)]


def _is_complement(value: ir.Value, of: ir.Value) -> bool:
    """Return whether `value` is 1 - of."""
    node = value.producer()
    if node is None or node.op_type != "Sub" or node.inputs[1] is not of or node.inputs[0] is None:
        return False
    one = node.inputs[0].const_value
    return one is not None and one.size == 1 and float(one.numpy().item()) == 1.0
