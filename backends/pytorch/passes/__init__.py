"""Passes of the PyTorch backend on the shared graph, before it is emitted."""
