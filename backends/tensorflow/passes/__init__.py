"""Passes of the TensorFlow backend on the shared graph, before it is emitted."""
