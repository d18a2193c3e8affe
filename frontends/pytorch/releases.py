"""The releases of PyTorch that were tested, and what happens on another release."""

from __future__ import annotations

import re
import sys

import torch

from convert.errors import Unsupported
from convert.outcome.report import Report

TRIED = ((2, 10), (2, 11), (2, 12), (2, 13), (2, 14))
"""The releases on which the tests of both PyTorch packages ran; `tests/suites/releases.py` runs them on others."""


def _parsed(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


RELEASE = _parsed(torch.__version__)
"""Major and minor version of the installed PyTorch."""


def note_release(report: Report) -> None:
    """Tell the user that this PyTorch was not tested, whether or not the result is verified."""
    if RELEASE not in TRIED:
        report.note(
            f"this converter was not tested with PyTorch {torch.__version__} (but with {_tried()}): "
            "rely on the verification",
            code="untested-version",
        )


def unknown_part(error: Exception, library: str = "torch") -> Unsupported:
    """Return the refusal for a part of a library that is needed and that the installed release does not have."""
    if library != "torch":
        release = getattr(sys.modules.get(library), "__version__", "")
        return Unsupported(
            f"this converter does not know {library} {release}, which lacks a part that it needs: {error}",
            hint=f"install a release of {library} that was tested: the extras of this package ask for them",
        )
    return Unsupported(
        f"this converter does not know PyTorch {torch.__version__}, which lacks a part that it needs: {error}",
        hint=f"install a release that was tested: {_tried()}",
    )


def _tried() -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in TRIED)
