"""Decisions that forward makes in Python, on sizes and on data, and graphs of several paths."""
