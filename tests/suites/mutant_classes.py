"""Classes of mutants that are equivalent to the program, as patterns that fit any file."""

from __future__ import annotations

import re

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
    (r"!= (ir\.DataType\.\w+)", r"is not \1", "there is one object of each dtype"),
    (r"== (ir\.DataType\.\w+)", r"is \1", "there is one object of each dtype"),
    (r" & ", " * ", "of booleans a product is both, and sets have none"),
    (r"!= (AS_IS|MOVED)\b", r"is not \1", "Python has one object of each small number"),
    (r"== (AS_IS|MOVED)\b", r"is \1", "Python has one object of each small number"),
    (r"!= AS_IS", "> AS_IS", "AS_IS is the least of all numbers"),
    (r"reshape\(-1", "reshape(~1", "numpy takes any negative size for the one that is not known"),
    (r"reshape\(-1", "reshape(- 2", "numpy takes any negative size for the one that is not known"),
    (r"\.dtype != (\w+)\.dtype", r".dtype is not \1.dtype", "numpy has one object of each dtype"),
    (r"graph is not (\w+)", r"graph != \1", "graphs have no equality of their own"),
    (r"% ([\w.]+) == 0", r"% \1 <= 0", "no remainder is less than 0"),
    (r"% ([\w.]+) != 0", r"% \1 > 0", "no remainder is less than 0"),
    (r"(len\([\w.]+\)) > 0", r"\1 != 0", "no length is negative"),
    (r"(reshape\([^-]*), -1\)", r"\1, ~1)", "numpy takes any negative size for the one that is not known"),
    (r"(reshape\([^-]*), -1\)", r"\1, - 2)", "numpy takes any negative size for the one that is not known"),
    (r"\.dtype == (\S+)\.dtype", r".dtype is \1.dtype", "numpy has one object of each dtype"),
    (r"(len\([\w.]+\)) == (len\([\w.]+\))", r"\1 is \2", "so few have one object for their number"),
    (r"(len\([\w.]+\)) != (count|len\([\w.]+\))", r"\1 is not \2", "so few have one object for their number"),
    (r"(\w+ == \w+\)?) \| \(np\.isnan", r"\1 ^ (np.isnan", "what is NaN is equal to nothing"),
    (r"(\w+ == \w+\)?) \| \(np\.isnan", r"\1 + (np.isnan", "a sum of booleans is either"),
    (r"\.ndim != (\w+)\.ndim", r".ndim is not \1.ndim", "Python has one object of each small number"),
    (r"\.ndim == (len\(\w+\))", r".ndim is \1", "Python has one object of each small number"),
    (r"\.ndim == (\w+)\.ndim", r".ndim is \1.ndim", "Python has one object of each small number"),
    (r'!= ""', '> ""', "no text is before the empty one"),
    (r'== ""', '<= ""', "no text is before the empty one"),
    (r"\b(i|place|index) == 0", r"\1 <= 0", "no place is negative"),
    (r"== np\.inf", ">= np.inf", "nothing is beyond infinity"),
    (r"== -np\.inf", "<= -np.inf", "nothing is below it"),
    (r"strict=True", "strict=False", "both are of one length, by the lines before; it is there for code to come"),
    (r"frozen=True", "frozen=False", "it keeps code that is not written yet from assigning; nothing assigns"),
]
"""Pattern of a line, its replacement, and the reason why such a mutant is equivalent if no test notices it."""


def reason_of_equivalence(line: str, changed: str) -> str:
    """Return why a change of a line makes the same program, or "" if it belongs to no class."""
    for pattern, becomes, reason in CLASSES:
        for found in re.finditer(pattern, line):
            if line[: found.start()] + found.expand(becomes) + line[found.end() :] == changed:
                return reason
    return ""
