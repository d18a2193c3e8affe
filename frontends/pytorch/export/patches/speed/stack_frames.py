"""Records only the stack frames that locate an operator in the model, because looking up all frames is slow."""

from __future__ import annotations

import sys
import traceback
from functools import cache
from types import FrameType
from typing import Any

from ....common.locate import TORCH

_LAYERS = f"{TORCH}nn/"


class ModelFrames:
    """Replaces `CapturedTraceback`: frames of forward that belong to the model, or to PyTorch's layers."""

    def __init__(self, innermost: FrameType | None) -> None:
        self.innermost = innermost

    @staticmethod
    def extract(*, script: bool = False, cpp: bool = False, skip: int = 0) -> ModelFrames:
        """Return the stack of the caller."""
        return ModelFrames(sys._getframe(1 + skip))

    def summary(self) -> traceback.StackSummary:
        """Return the outermost frame first, without source text, which is looked up when it is shown."""
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
    """Return the frames unchanged: PyTorch's filter would drop layers while guards are recorded."""
    return frames
