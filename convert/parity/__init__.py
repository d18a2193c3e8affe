"""Decide whether a target computes the same function as its source, up to the source's own rounding error."""
