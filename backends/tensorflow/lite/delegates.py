"""Notes on what operators run on: on XNNPACK, the delegate of TensorFlow Lite's interpreters on CPUs, or in floats.

There is no report for GPU delegates. The analyzers of TensorFlow 2.21 and LiteRT 2.3 call every file compatible, also
one with int64 or WHERE, because their libraries were built without that check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convert.outcome.report import Report
from convert.outcome.text import counted

_LARGEST = 1 << 28
"""Bytes of the largest file that is examined, because the delegate copies weights."""
_SHOWN = 6


def examine(file: Path) -> dict[str, Any]:
    """Return the number of operators and the names of those that XNNPACK leaves, or {} if that cannot be found out."""
    if file.stat().st_size > _LARGEST:
        return {}
    import tensorflow as tf

    try:
        interpreter = tf.lite.Interpreter(model_content=file.read_bytes(), num_threads=1)
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError):  # the verification says why
        return {}
    return dict(zip(("operators", "left"), _left_by_delegates(interpreter._get_ops_details()), strict=True))


def _left_by_delegates(rows: Sequence[dict[str, Any]]) -> tuple[int, list[str]]:
    """Return the number of operators, and the names of those outside of every part that a delegate replaces.

    rows: the operators, with the parts as operators at the end.
    """
    own = [row for row in rows if row["op_name"] != "DELEGATE"]
    makers = {int(t): number for number, row in enumerate(own) for t in row["outputs"]}
    taken: set[int] = set()
    for part in rows[len(own) :]:
        given, waiting = set(map(int, part["inputs"])), list(map(int, part["outputs"]))
        while waiting:
            tensor = waiting.pop()
            number = makers.get(tensor)
            if number is not None and tensor not in given and number not in taken:
                taken.add(number)
                waiting += map(int, own[number]["inputs"])
    return len(own), [row["op_name"] for number, row in enumerate(own) if number not in taken]


def note_delegate(total: int, left: Sequence[str], report: Report) -> None:
    """Add a note on what XNNPACK takes to the report."""
    rest = f"; on other kernels: {counted_names(left)}" if left else ""
    report.note(f"XNNPACK computes {total - len(left)} of {counted(total, 'operator')}{rest}", code="cpu-delegate")


def counted_names(names: Sequence[str]) -> str:
    """Return the most frequent operators, each with its number."""
    common = Counter(names).most_common()
    shown = ", ".join(name if count == 1 else f"{count} × {name}" for name, count in common[:_SHOWN])
    return shown + (f" and {len(common) - _SHOWN} more kinds" if len(common) > _SHOWN else "")


def note_floats(names: Sequence[str], report: Report) -> None:
    """Add a note on the operators that compute in floats by our choice to the report."""
    report.note(
        f"in floats, because 8 bits would be slower or less exact: {counted_names(names)}; --io-dtype int8 computes "
        "everything in 8 bits",
        code="chosen-floats",
    )
