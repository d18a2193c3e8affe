"""Whole PyTorch and TorchScript programs that no operator table contains, each at several sizes."""

from __future__ import annotations

from tests.suites.programs.pytorch_language import LANGUAGE
from tests.suites.programs.pytorch_modules import MODULES
from tests.suites.programs.pytorch_signals import SIGNALS
from tests.suites.programs.pytorch_sizes import SIZES
from tests.suites.programs.pytorch_users import USERS
from tests.suites.programs.pytorch_values import VALUES

PROGRAMS = [*VALUES, *SIZES, *MODULES, *LANGUAGE, *SIGNALS, *USERS]

_ANY = {
    "both_names": "wrote to memory that this tensor may or may not share",
}
REFUSED: dict[str, dict[str, str]] = {"onnx": _ANY, "tf": _ANY, "tf-frozen": _ANY}
"""Programs that a format refuses, with the reason. The reader refuses most of them for every format."""
