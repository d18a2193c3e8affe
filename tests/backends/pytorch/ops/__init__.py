"""Rows of the rules of the PyTorch backend."""
