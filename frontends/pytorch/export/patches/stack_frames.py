"""Keeps the stack of a captured operator to the frames that say where it is in the model: PyTorch looks up all."""

from __future__ import annotations

import sys
import traceback
from functools import cache
from types import FrameType
from typing import Any

from ...common.locate import TORCH

_LAYERS = f"{TORCH}nn/"


class ModelFrames:
    """Stands in for `CapturedTraceback`: those calls of forward that are the model's, or of PyTorch's layers."""

    def __init__(self, innermost: FrameType | None) -> None:
        self.innermost = innermost

    @staticmethod
    def extract(*, script: bool = False, cpp: bool = False, skip: int = 0) -> ModelFrames:
        """The stack of whoever calls this."""
        return ModelFrames(sys._getframe(1 + skip))

    def summary(self) -> traceback.StackSummary:
        """The outermost frame first, without the text of its lines: that is looked up for those that are shown."""
        found: list[traceback.FrameSummary] = []
        frame = self.innermost
        while frame is not None:
            code = frame.f_code
            if code.co_name == "forward" and _is_shown(code.co_filename):
                found.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name, lookup_line=False))
            frame = frame.f_back
        return traceback.StackSummary(reversed(found))


@cache
def _is_shown(file: str) -> bool:
    return not file.startswith(TORCH) or file.startswith(_LAYERS)


def all_frames(tracer: Any, frames: Any) -> Any:
    """The frames as they are: PyTorch's filter would leave out layers while guards are recorded (`../guards.py`)."""
    return frames
