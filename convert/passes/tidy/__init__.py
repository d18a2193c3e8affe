"""Passes that simplify a graph: folding, dead and duplicate nodes, decided branches."""
