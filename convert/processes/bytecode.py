"""Finds imported packages that were installed without bytecode, which a confined command cannot write for itself.

pip compiles what it installs, uv does not. Python then compiles each module on import and keeps the result beside it.
The worker of a command may not write there (`confine_command`), so every command would compile PyTorch and TensorFlow
again: 13 of 21 CPU seconds of a small conversion.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from collections import Counter
from pathlib import Path

from convert.outcome.notes import Note
from convert.outcome.text import counted

_FEW = 500
"""Modules that are compiled in less than a second."""


def modules_without_bytecode() -> Counter[tuple[str, str]]:
    """Return how many imported modules have no bytecode on disk, by the name and the parent folder of their package.

    Only packages that were installed into the environment count, and no checkouts or generated modules.
    """
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    found: Counter[tuple[str, str]] = Counter()
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or not spec.has_location or spec.cached is None or os.path.exists(spec.cached):
            continue
        package = name.partition(".")[0]
        place = str(Path(getattr(sys.modules.get(package), "__file__", None) or spec.origin).parent.parent)
        if place in installed:
            found[package, place] += 1
    return found


def bytecode_note() -> Note | None:
    """Return a note on the packages that Python has compiled in this process; None if there are few modules."""
    found = modules_without_bytecode()
    if found.total() < _FEW:
        return None
    largest = found.most_common(3)
    packages = ", ".join(package for (package, _), _ in largest)
    places = dict.fromkeys(place for (_, place), _ in largest)
    return Note(
        f"Python compiled {counted(found.total(), 'module')} of {packages} and others, as it will for each command: "
        f"they were installed without bytecode; `python -m compileall -q -j 0 {shlex.join(places)}` writes it once",
        code="missing-bytecode",
    )
