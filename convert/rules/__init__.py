"""Operator tables: how rules are registered, bound and listed."""

from __future__ import annotations

from convert.rules.table import REQUIRED, Argument, Rule, Rules, Schema

__all__ = ["REQUIRED", "Argument", "Rule", "Rules", "Schema"]
