"""Known beginnings of command-line output, to find a line that a line break in a name has forged."""

from __future__ import annotations

import re

_BEGINNINGS = "|".join(
    (
        "error: ", "hint: ", "note: ", "assuming ", "time: ", "report: ", "inputs: ", "journal: ", "junit: ",
        r"\[ *\d+\.\d s\] ", r"\[\d+/\d+\] ",  # lines of progress, and of finished tasks
        "  +\\S",  # lines of inputs and outputs, of notes in a verdict, and of items in a list
        r"(?:PASS|FAIL|INCONCLUSIVE)(?:$|: | \(|  error | {2}the outputs are equal)",
        r"\d+  \S", "step \\d+ breaks$", "no step breaks$",
        r"\d+ (?:verified|converted|convertible|mismatch|inconclusive|unsupported|bad input|unsafe|usage|limit|timeout"
        "|memory|crash|lost|changed|failed|interrupted)(?:,|$)",
        r"(?:new failures|repaired|other outcomes|sizes|errors|new|gone): \d+$",  # changes since another batch
        "nothing to do$", "unsupported, by the number of conversions", "operators: ", "interrupted$",
        r".* → .*  \(\w[\w. -]*(?:, [\d.]+ \w?B)?(?:, [\d.]+ s)?\)$",  # lines of converted files
        r".*: assuming .* --input\)$",  # about one of two models
        r".*: [a-z][a-z0-9-]+$", r".* \([a-z][a-z0-9-]+\) can be converted to ",  # lines of inspected files
    )
)  # fmt: skip
_OURS = re.compile(_BEGINNINGS)


def foreign_line(text: str) -> str | None:
    """Return the first line of `text` that does not begin like convert's own lines, or None."""
    lines = text.removesuffix("\n").split("\n") if text else []
    return next((line for line in lines if not _OURS.match(line)), None)
