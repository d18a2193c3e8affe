"""Reads a module or an ExportedProgram into the shared graph: capture by torch.export, dims, guards, lowering."""
