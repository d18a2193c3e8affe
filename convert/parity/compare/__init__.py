"""Comparisons of outputs, and what they prove."""
