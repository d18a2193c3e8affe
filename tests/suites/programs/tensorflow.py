"""Whole TensorFlow programs that no operator table contains, each at several sizes."""

from __future__ import annotations

from tests.suites.programs.tensorflow_control import CONTROL
from tests.suites.programs.tensorflow_users import USERS
from tests.suites.programs.tensorflow_values import VALUES

PROGRAMS = [*CONTROL, *VALUES, *USERS]
