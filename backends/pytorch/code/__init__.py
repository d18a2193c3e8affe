"""Readable Python of a graph: what the rules call is recorded, found to be layers and blocks, and printed."""
