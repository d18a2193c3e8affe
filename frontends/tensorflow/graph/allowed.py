"""The operators that a graph may contain before any of it is run: those that only compute.

`operator_effects.tsv` lists, for every operator in TensorFlow's registry, its effects besides computing; each was
reviewed. Pure computation is allowed, including decoding of images, whose kernels are no riskier than others. Operators
that touch files, the network, other programs or devices are not allowed, nor those missing from the table. Some depend:

- on an attribute (`PrintV2` prints to a stream or to a file);
- on the program of StableHLO that they hold, whose operators have to be known (`programs`);
- on what runs them: Save and Restore are for the saver that loading uses (`file_access`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from convert.errors import Location, Problem, UnsafeInput

from .file_access import Graph, file_problems
from .programs import only_computes

COMPUTES, BY_ATTRIBUTES, SAVER, TABLE = "computes", "by its attributes", "saver", "table from a file"
TESTS, INTERNAL, STABLEHLO = "test", "internal", "StableHLO"
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
_SAVING_HINT = f"name the model's outputs with --outputs NAME,…, which leaves out operators that save it; {HINT}"
PROGRAM_HINT = "no conversion reads such a program: export the model with TensorFlow's own operators"


def _is_inner_source(source: bytes) -> bool:
    return source in (b"", b"local://") or source.startswith(b"bytes://")


_STREAMS = (b"", b"stdout", b"stderr", b"log(info)", b"log(warning)", b"log(error)")
_SAFE_ATTRIBUTES: Mapping[str, tuple[str, Callable[[bytes], bool], str]] = {
    "PrintV2": ("output_stream", lambda s: s in _STREAMS, "prints to a file"),
    "DecodeProtoV2": ("descriptor_source", _is_inner_source, "opens a file of descriptors"),
    "EncodeProto": ("descriptor_source", _is_inner_source, "opens a file of descriptors"),
    "FixedUnigramCandidateSampler": ("vocab_file", lambda s: not s, "opens a vocabulary"),
}
"""The deciding attribute, its harmless values (including the default), and the effect of the others."""


@cache
def effects() -> Mapping[str, str]:
    """Return the class of each operator in `operator_effects.tsv`: `COMPUTES`, or its effect."""
    text = files(__package__).joinpath("operator_effects.tsv").read_text()
    return dict(line.split("\t") for line in text.splitlines())


def unsafe_operators() -> list[str]:
    """Return the names of operators that a model might contain and that are not allowed."""
    left_out = (COMPUTES, BY_ATTRIBUTES, TABLE, TESTS, INTERNAL, STABLEHLO, "devices")
    return sorted(name for name, kind in effects().items() if kind not in left_out)


def refuse_effects(
    graph: Graph,
    label: str,
    roots: Iterable[str],
    *,
    known: Collection[str] = (),
    unknown: bool = True,
    hint: str = "",
) -> None:
    """Raise one `UnsafeInput` that lists every operator in the file that may do more than compute.

    roots: tensors or nodes that will be run in addition to those that the graph names (signatures, initializers).
    known: operators that the user trusts. unknown: refuse operators missing from the table; they are harmless if
    nothing is run. hint: what the user can do, if that is not to name outputs or to trust the file.
    """
    found: dict[tuple[str, str], list[Location]] = {}
    for function, node in graph.all_nodes():
        if why := _problem(node, graph.functions, known, unknown=unknown):
            found.setdefault((node.op, why), []).append(_location(function, node))
    for function, node, why in file_problems(graph, roots, saver=_of_class(SAVER), tables=_of_class(TABLE)):
        found.setdefault((node.op, why), []).append(_location(function, node))
    problems = [Problem(why, places[0], len(places)) for (_, why), places in found.items()]
    refuse_listed(label, problems, hint)


def refuse_listed(label: str, problems: Sequence[Problem], hint: str = "") -> None:
    """Raise `UnsafeInput` with all `problems`, if there are any, and with `hint` unless they are compiled programs."""
    if problems:
        compiled = any(is_compiled(problem.at.operator) for problem in problems)
        saving = {problem.at.operator for problem in problems} <= {"SaveV2", "RestoreV2", "Save", "Restore"}
        raise UnsafeInput(
            f"{label} holds operators that may do more than compute:",
            hint=f"{PROGRAM_HINT}; where no output depends on it, --trust reads the rest"
            if compiled
            else hint or (_SAVING_HINT if saving else HINT),
            items=problems,
        )


def is_compiled(operator: str) -> bool:
    """Return whether an operator runs an XLA or MLIR program, which no rule reads, trusted or not."""
    return effects().get(operator) == "program" and any(name in operator for name in ("Xla", "Mlir"))


def operator_problem(operator: str) -> str:
    """Return why an operator is not allowed whatever its attributes and its caller, or ""."""
    kind = effects().get(operator)
    return "" if kind == COMPUTES else UNKNOWN if kind is None else REASONS.get(kind, REASONS["files"])


def _problem(node: Any, functions: Collection[str], known: Collection[str], *, unknown: bool) -> str:
    kind = effects().get(node.op)
    if kind in (COMPUTES, SAVER, TABLE):
        return ""
    if kind == STABLEHLO:  # a reader checks those that it lowers, and executes none
        return "" if not unknown or only_computes(node) else REASONS["program"]
    if kind == BY_ATTRIBUTES:
        name, harmless, why = _SAFE_ATTRIBUTES[node.op]
        given = node.attr.get(name)
        # An attribute that refers to one of the caller says nothing.
        return "" if given is None or (given.WhichOneof("value") == "s" and harmless(given.s)) else why
    if kind is not None:
        return REASONS[kind]
    return UNKNOWN if unknown and node.op not in functions and node.op not in known else ""


def _of_class(kind: str) -> frozenset[str]:
    return frozenset(name for name, its in effects().items() if its == kind)


def _location(function: str, node: Any) -> Location:
    return Location(node.op, node.name, f"function {function!r}" if function else "")
