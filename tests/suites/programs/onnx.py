"""Whole ONNX models that no table of operators holds, each at several sizes, with what each format refuses of them."""

from __future__ import annotations

from tests.suites.programs.onnx_control import CONTROL
from tests.suites.programs.onnx_layers import LAYERS
from tests.suites.programs.onnx_values import VALUES

PROGRAMS = [*CONTROL, *VALUES, *LAYERS]
