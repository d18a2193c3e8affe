"""Decide which differences rounding explains."""
