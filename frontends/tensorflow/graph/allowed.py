"""Which operators a graph may hold before anything of it is run: those that compute, and no others.

`operator_effects.tsv` says of every operator in TensorFlow's registry what it does beside computing; each was looked
at. What only computes is allowed, decoding of images included: a kernel on tensors is no worse than any other. What
touches files, the network, other programs or devices is not, nor is what the table does not name. A few depend:

- on an attribute (`PrintV2` prints to a stream or to a file);
- on what runs them: Save and Restore are for the saver that loading uses (`file_access`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from convert.errors import Location, Problem, UnsafeInput

from .file_access import Graph, file_problems

COMPUTES, BY_ATTRIBUTES, SAVER, TABLE = "computes", "by its attributes", "saver", "table from a file"
TESTS, INTERNAL = "test", "internal"
REASONS = {
    "files": "reads or writes files",
    "network": "sends to or receives from elsewhere",
    "devices": "works on devices and hosts of its own",
    "Python": "calls Python",
    "program": "brings another program as data",
    "process": "holds up or ends the process, or starts threads",
    INTERNAL: "is TensorFlow's own, for graphs in memory",
    TESTS: "is there for TensorFlow's tests",
}
UNKNOWN = "is not known to do nothing but compute"
HINT = "if you trust the file, add --trust; else export the model for inference, without its input pipeline"
PROGRAM_HINT = (
    "no conversion reads such a program: export the model with TensorFlow's own operators "
    "(from JAX up to 0.6: jax2tf.convert(f, native_serialization=False), which newer ones ignore)"
)


def _is_inner_source(source: bytes) -> bool:
    return source in (b"", b"local://") or source.startswith(b"bytes://")


_STREAMS = (b"", b"stdout", b"stderr", b"log(info)", b"log(warning)", b"log(error)")
_SAFE_ATTRIBUTES: Mapping[str, tuple[str, Callable[[bytes], bool], str]] = {
    "PrintV2": ("output_stream", lambda s: s in _STREAMS, "prints to a file"),
    "DecodeProtoV2": ("descriptor_source", _is_inner_source, "opens a file of descriptors"),
    "EncodeProto": ("descriptor_source", _is_inner_source, "opens a file of descriptors"),
    "FixedUnigramCandidateSampler": ("vocab_file", lambda s: not s, "opens a vocabulary"),
}
"""The attribute that decides, the values that are harmless (the default is), and what the others do."""


@cache
def effects() -> Mapping[str, str]:
    """The class of each operator in `operator_effects.tsv` by its name: `COMPUTES`, or what it does beside that."""
    text = files(__package__).joinpath("operator_effects.tsv").read_text()
    return dict(line.split("\t") for line in text.splitlines())


def unsafe_operators() -> list[str]:
    """The operators that a model might hold and that are not allowed, by name."""
    left_out = (COMPUTES, BY_ATTRIBUTES, TABLE, TESTS, INTERNAL, "devices")
    return sorted(name for name, kind in effects().items() if kind not in left_out)


def refuse_effects(
    graph: Graph, label: str, roots: Iterable[str], *, known: Collection[str] = (), unknown: bool = True
) -> None:
    """Raise one `UnsafeInput` that lists every operator in the file that may do more than compute.

    roots: the tensors or nodes that are going to be run beside what the graph names itself (signatures, initializers).
    known: operators that the user vouches for. unknown: whether those that the table does not name are refused; where
    nothing is run, they do nothing.
    """
    found: dict[tuple[str, str], list[Location]] = {}
    for function, node in graph.all_nodes():
        if why := _problem(node, graph.functions, known, unknown=unknown):
            found.setdefault((node.op, why), []).append(_location(function, node))
    for function, node, why in file_problems(graph, roots, saver=_of_class(SAVER), tables=_of_class(TABLE)):
        found.setdefault((node.op, why), []).append(_location(function, node))
    refuse_listed(label, [Problem(why, places[0], len(places)) for (_, why), places in found.items()])


def refuse_listed(label: str, problems: Sequence[Problem]) -> None:
    """Raise `UnsafeInput` with every one of `problems`, if there are any."""
    if problems:
        compiled = any(is_compiled(problem.at.operator) for problem in problems)
        raise UnsafeInput(
            f"{label} holds operators that may do more than compute:",
            hint=f"{PROGRAM_HINT}; where no output depends on it, --trust reads the rest" if compiled else HINT,
            items=problems,
        )


def is_compiled(operator: str) -> bool:
    """Whether an operator runs a program of XLA's or MLIR's: no rule reads that, trusted or not."""
    return effects().get(operator) == "program" and any(name in operator for name in ("Xla", "Mlir"))


def operator_problem(operator: str) -> str:
    """Why an operator is not allowed whatever its attributes are and whoever runs it, or nothing."""
    kind = effects().get(operator)
    return "" if kind == COMPUTES else UNKNOWN if kind is None else REASONS.get(kind, REASONS["files"])


def _problem(node: Any, functions: Collection[str], known: Collection[str], *, unknown: bool) -> str:
    kind = effects().get(node.op)
    if kind in (COMPUTES, SAVER, TABLE):
        return ""
    if kind == BY_ATTRIBUTES:
        name, harmless, why = _SAFE_ATTRIBUTES[node.op]
        given = node.attr.get(name)
        # A caller's attribute that stands here by its name tells nothing.
        return "" if given is None or (given.WhichOneof("value") == "s" and harmless(given.s)) else why
    if kind is not None:
        return REASONS[kind]
    return UNKNOWN if unknown and node.op not in functions and node.op not in known else ""


def _of_class(kind: str) -> frozenset[str]:
    return frozenset(name for name, its in effects().items() if its == kind)


def _location(function: str, node: Any) -> Location:
    return Location(node.op, node.name, f"function {function!r}" if function else "")
