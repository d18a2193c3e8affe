"""Runs programs in JAX itself, in float64 too."""
