"""The releases of PyTorch that were tried, and what is done on another one."""

from __future__ import annotations

import re
import sys

import torch

from convert.errors import Unsupported
from convert.report import Report

TRIED = ((2, 13), (2, 14))
"""The releases that the tests of both PyTorch packages ran on; `tests/suites/releases.py` runs them on others."""


def _parsed(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


RELEASE = _parsed(torch.__version__)
"""Major and minor number of the PyTorch that is installed."""


def note_release(report: Report) -> None:
    """Tell the user that this PyTorch was not tried, whether or not the result is verified."""
    if RELEASE not in TRIED:
        report.note(
            f"this converter was not tested with PyTorch {torch.__version__} (but with {_tried()}): "
            "rely on the verification",
            code="untested-version",
        )


def unknown_part(error: Exception, library: str = "torch") -> Unsupported:
    """Return the refusal for a part of a library that is needed and that its installed release does not have."""
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
