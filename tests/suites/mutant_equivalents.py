"""Mutants that no test can tell from the program, with the reason why."""

from __future__ import annotations

import re

EQUIVALENTS: dict[tuple[str, str, str], str] = {
    ("dense.py", "full = rank(node.outputs[0])", "full = rank(node.outputs[ -1])"): (
        "mean and deviation of a LayerNormalization have the rank of its output"
    ),
    (
        "dense.py",
        "tensor = constant(add.inputs[1 - uses[0].idx])",
        "tensor = constant(add.inputs[1 ^ uses[0].idx])",
    ): "of 0 and 1 the other one either way",
    **{
        (
            "onnx_schemas.py",
            "Argument(i.name, REQUIRED if i.option == _Option.Single else None)",
            f"Argument(i.name, REQUIRED if i.option {operator} _Option.Single else None)",
        ): "there is one object of each option, and Single is the least of them"
        for operator in ("is", "<=")
    },
    (
        "rewrite.py",
        "return value if self.stored.get(value, False) == moved else self._transposed_copy(value, moved)",
        "return value if self.stored.get(value, False) is moved else self._transposed_copy(value, moved)",
    ): "both are True or False",
    (
        "assign.py",
        "value, moved = node.inputs[0], move(len(perm))",
        "value, moved = node.inputs[ -1], move(len(perm))",
    ): ("a Transpose has one input"),
    ("dense.py", "y = node.outputs[0]", "y = node.outputs[ -1]"): "a MatMul has one output",
    (
        "min_cut.py",
        "return [i == MOVED if i <= MOVED else bool(side[i] != flipped[i]) for i in range(count)]",
        "return [i >= MOVED if i <= MOVED else bool(side[i] != flipped[i]) for i in range(count)]",
    ): "of the numbers up to MOVED, 0 and 1, MOVED is the larger",
    **{
        (
            "min_cut.py",
            "step = min(len(terms) + 1, max(2, _BUDGET // sum(prices)))",
            f"step = min(len(terms) {operator} 1, max(2, _BUDGET // sum(prices)))",
        ): "a step of the number of terms is enough: what is dearer by one unit leaves out a term that counts"
        for operator in ("<<", "|", "*")
    },
    (
        "move_through_reshape.py",
        "if wanted.count(-1) > 1 and isinstance(shape[0], str) and shape[0] == source[0]:",
        "if wanted.count(- 0) > 1 and isinstance(shape[0], str) and shape[0] == source[0]:",
    ): "sizes of 0 are refused in the next line",
    (
        "listing.py",
        "if new != name:",
        "if new is not name:",
    ): "what is not renamed keeps its name",
    ("onnx_schemas.py", "", "def schema(operator: str) -> Schema | None:"): "the cache saves time",
    ("onnx_schemas.py", "@cache", "def schema(operator: str) -> Schema | None:"): "the cache saves time",
    (
        "onnx_schemas.py",
        "if i.option != _Option.Variadic",
        "if i.option is not _Option.Variadic",
    ): "there is one object of each option",
    (
        "onnx_schemas.py",
        "if i.option != _Option.Variadic",
        "if i.option < _Option.Variadic",
    ): "Variadic is the last of the three options",
    (
        "table.py",
        "accepted = entry.keyword | set(entry.positional[len(values) :])",
        "accepted = entry.keyword ^ set(entry.positional[len(values) :])",
    ): "a parameter is positional or keyword, never both",
    (
        "compose_transposes.py",
        "ir.convenience.replace_nodes_and_values(graph, row[-1], [row[-1]], made, [old], [new])",
        "ir.convenience.replace_nodes_and_values(graph, row[- 0], [row[-1]], made, [old], [new])",
    ): "what is made reads what the first of the row reads: it may stand behind that one as well",
    ("rules.py", "numbers = list(range(starts.shape[0]))", "numbers = list(range(starts.shape[ -1]))"): (
        "starts have one dim"
    ),
    ("rounding_margins.py", "source = node.inputs[0]", "source = node.inputs[ -1]"): "a Cast has one input",
    (
        "special.py",
        "wrong = np.asarray((got != source) & certain)",
        "wrong = np.asarray((got != source) // certain)",
    ): "of booleans: x // True is x, and x // False is 0",
}
"""Name of the file, the line, the line as changed; and why both are the same program."""

_ONE = r"(None|REQUIRED|True|False|(?:Side|inspect\.Parameter)\.[A-Z_]+)(?![\w.])"

CLASSES: list[tuple[str, str, str]] = [
    (rf"\bis {_ONE}", r"== \1", "nothing else is equal to it: values, nodes and shapes have no equality of their own"),
    (
        rf"\bis not {_ONE}",
        r"!= \1",
        "nothing else is equal to it: values, nodes and shapes have no equality of their own",
    ),
    (r"== (\"[^\"]*\"|\d+)", r"is \1", "Python has one object of each name and small number; ruff refuses it (F632)"),
    (
        r"!= (\"[^\"]*\"|\d+)",
        r"is not \1",
        "Python has one object of each name and small number; ruff refuses it (F632)",
    ),
    (r"== (FAIL|PASS|INCONCLUSIVE)\b", r"is \1", "there is one object of each status"),
    (r"!= (FAIL|PASS|INCONCLUSIVE)\b", r"is not \1", "there is one object of each status"),
    (r"== FAIL\b", "<= FAIL", "of the three statuses FAIL is the least"),
    (r"!= FAIL\b", "> FAIL", "of the three statuses FAIL is the least"),
    (r"== PASS\b", ">= PASS", "of the three statuses PASS is the greatest"),
    (r"!= PASS\b", "< PASS", "of the three statuses PASS is the greatest"),
    (r"% full != full - 1", "% full < full - 1", "a remainder is at most full - 1"),
    (r"strict=True", "strict=False", "both are of one length, by the lines before; it is there for code to come"),
    (r"frozen=True", "frozen=False", "it keeps code that is not written yet from assigning; nothing assigns"),
]
"""What is changed, what it becomes, and why such a mutant is the same program if no test notices it."""


def reason_of_equivalence(file: str, line: str, changed: str) -> str:
    """Why a mutant is the same program, or "" where it is not declared to be."""
    for pattern, becomes, reason in CLASSES:
        for found in re.finditer(pattern, line):
            if line[: found.start()] + found.expand(becomes) + line[found.end() :] == changed:
                return reason
    return EQUIVALENTS.get((file, line, changed), "")
