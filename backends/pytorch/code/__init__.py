"""Readable Python for a graph: record what the rules call, find layers and blocks in it, and print it."""
