"""Lowers an ExportedProgram to the shared graph, node by node."""
