"""Pair the inputs, outputs and weights of two artefacts."""
