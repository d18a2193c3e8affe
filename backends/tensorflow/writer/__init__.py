"""Writes SavedModels and frozen graphs: files, checkpoints, signatures."""
