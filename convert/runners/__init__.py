"""Executors of artefacts, one per runtime, each called inside a child process with time and memory limits."""

from __future__ import annotations

from convert.runners.process import execute

__all__ = ["execute"]
