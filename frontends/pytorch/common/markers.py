"""Limits that a rule and its replacement during capture declare with the same text."""

from __future__ import annotations

from ..rules import torch_op

PIECES = torch_op.limit("tensor_split", "how many pieces there are is not known before run time, and they are outputs")
