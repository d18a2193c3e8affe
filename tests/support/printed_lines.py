"""How lines of the command line begin, so that one which a name has broken off is found among them."""

from __future__ import annotations

import re

_BEGINNINGS = "|".join(
    (
        "error: ", "hint: ", "note: ", "assuming ", "time: ", "report: ", "inputs: ", "journal: ",
        r"\[ *\d+\.\d s\] ", r"\[\d+/\d+\] ",  # progress, and tasks that ended
        "  +\\S",  # inputs and outputs, notes of a verdict, items of a list
        r"(?:PASS|FAIL|INCONCLUSIVE)(?:$|: | \(|  error | {2}the outputs are equal)",
        r"\d+  \S", "step \\d+ breaks$", "no step breaks$",
        r"\d+ (?:verified|converted|convertible|mismatch|inconclusive|unsupported|bad input|unsafe|usage|limit|timeout"
        "|memory|crash|lost|changed|failed|interrupted)(?:,|$)",
        "nothing to do$", "unsupported, by the number of conversions", "operators: ", "interrupted$",
        r".* → .*  \(\w[\w. -]*(?:, [\d.]+ \w?B)?(?:, [\d.]+ s)?\)$",  # what was converted
        r".*: [a-z][a-z0-9-]+$", r".* \([a-z][a-z0-9-]+\) can be converted to ",  # what was inspected
    )
)  # fmt: skip
_OURS = re.compile(_BEGINNINGS)


def foreign_line(text: str) -> str | None:
    """Return the first line of `text` that begins as none of ours, None where all do."""
    lines = text.removesuffix("\n").split("\n") if text else []
    return next((line for line in lines if not _OURS.match(line)), None)
