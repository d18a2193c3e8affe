"""Whole ONNX models that no operator table contains, each at several sizes, with the refusals of each format."""

from __future__ import annotations

from tests.suites.programs.onnx_control import CONTROL
from tests.suites.programs.onnx_layers import LAYERS
from tests.suites.programs.onnx_values import VALUES

PROGRAMS = [*CONTROL, *VALUES, *LAYERS]
