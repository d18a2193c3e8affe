"""Whole small programs of each source framework, converted to every format that supports them."""
