"""Reads a module or an ExportedProgram into the shared graph: capture by torch.export, dims, guards, lowering."""

from pathlib import Path

FOLDER = f"{Path(__file__).parent}/"
"""The path prefix of the files of this package, whose frames are not the model's."""
