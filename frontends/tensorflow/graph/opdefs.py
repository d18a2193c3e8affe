"""The schemas of TensorFlow's operators: arguments, attributes and their defaults, without importing TensorFlow.

`opdefs.tsv` has one operator per line: name, inputs, outputs, attributes (JSON: name → [type, default]). An argument
`values*N` is a list whose length is the attribute N; `args@T` is one whose dtypes are the attribute T. `python -m
convert.frontends.tensorflow.graph.opdefs > opdefs.tsv` writes the table from an installed TensorFlow, and a test
compares the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import numpy as np

from convert.rules import REQUIRED, Argument, Schema

from .attributes import DTYPES

# Attributes that change how TensorFlow computes but not the result, or that follow from the inputs.
_IMMATERIAL = {
    "use_cudnn_on_gpu",
    "use_locking",
    "validate_shape",
    "container",
    "shared_name",
    "allowed_devices",
    "debug_name",
    "config",
    "config_proto",
    "executor_type",
    "parallel_iterations",
    "message",
    "summarize",
    "validate_indices",
    "num_args",
    "grad_a",
    "grad_b",
    "grad_x",
    "grad_y",
    "use_inter_op_parallelism",
}


@dataclass(frozen=True)
class Arg:
    """One input or output; `many` names the attribute with the length or the dtypes of a list."""

    name: str
    many: str = ""

    def count(self, attributes: dict[str, Any]) -> int:
        """Return how many tensors it stands for on a node with these attributes."""
        if not self.many:
            return 1
        value = attributes[self.many]
        return value if isinstance(value, int) else len(value)


@dataclass(frozen=True)
class Attribute:
    """One attribute: TensorFlow's type for it (`int`, `list(type)` …) and its default, or `REQUIRED`."""

    kind: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class OpDef:
    """The schema of one operator."""

    name: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    attributes: dict[str, Attribute]

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The values of attributes that a node leaves out."""
        return {name: a.default for name, a in self.attributes.items() if a.default is not REQUIRED}


@cache
def table() -> dict[str, OpDef]:
    """Return every operator in `opdefs.tsv` by name."""
    text = files(__package__).joinpath("opdefs.tsv").read_text()
    return {op.name: op for op in map(_parse_line, text.splitlines())}


def find(operator: str) -> OpDef | None:
    """Return the schema of `operator`, or None if it is not a TensorFlow operator that the reader knows."""
    return table().get(operator)


@cache
def schema(operator: str) -> Schema | None:
    """Return the dispatcher's schema: dtypes and lengths follow from the inputs, so rules may leave them out."""
    op = find(operator)
    if op is None:
        return None
    lengths = {arg.many for arg in (*op.inputs, *op.outputs)}
    implied = {n for n, a in op.attributes.items() if a.kind in ("type", "list(type)") or n in lengths | _IMMATERIAL}
    keyword = tuple(Argument(name, attribute.default) for name, attribute in op.attributes.items())
    return Schema(tuple(Argument(arg.name) for arg in op.inputs), keyword, frozenset(implied))


def _parse_line(line: str) -> OpDef:
    name, inputs, outputs, attributes = line.split("\t")
    decoded = {n: Attribute(a[0], _parse_default(*a)) for n, a in json.loads(attributes).items()}
    return OpDef(name, _parse_args(inputs), _parse_args(outputs), decoded)


def _parse_default(kind: str, *default: Any) -> Any:
    if not default:
        return REQUIRED
    if kind == "type":
        return DTYPES.get(default[0])
    return default[0]


def _parse_args(text: str) -> tuple[Arg, ...]:
    return tuple(Arg(*part.replace("@", "*").split("*")) for part in text.split())


def describe(op: Any) -> str:
    """Return the line of `opdefs.tsv` for an OpDef message of an installed TensorFlow."""

    def args(list_: Any) -> str:
        return " ".join(
            a.name + (f"*{a.number_attr}" if a.number_attr else f"@{a.type_list_attr}" if a.type_list_attr else "")
            for a in list_
        )

    attributes = {
        a.name: [a.type] + ([_attribute_literal(a.default_value)] if a.HasField("default_value") else [])
        for a in op.attr
    }
    return "\t".join([op.name, args(op.input_arg), args(op.output_arg), json.dumps(attributes, separators=(",", ":"))])


def _attribute_literal(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "list":
        return [_scalar_literal(name, v) for name in ("s", "i", "f", "b", "type") for v in getattr(value.list, name)]
    if kind == "shape":
        return None if value.shape.unknown_rank else [d.size for d in value.shape.dim]
    if kind == "tensor":
        return None
    return _scalar_literal(kind, getattr(value, kind)) if kind != "func" else None


def _scalar_literal(kind: str, value: Any) -> Any:
    if kind == "s":
        return value.decode("latin-1")
    return float(str(np.float32(value))) if kind == "f" else value


def main() -> None:
    """Print the table of the operators that it already has, with the schemas of the installed TensorFlow."""
    from tensorflow.python.framework import op_def_registry

    for name in table():
        print(describe(op_def_registry.get(name)))


if __name__ == "__main__":
    main()
