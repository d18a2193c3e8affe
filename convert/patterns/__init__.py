"""Layers that programs write as arithmetic, found again in the shared graph."""
