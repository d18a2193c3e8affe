"""Passes of the Keras backend on the shared graph, before it is emitted."""
