"""Converts a TorchScript graph to the shared graph: values, containers, branches, loops, state."""
