"""From a module or an ExportedProgram to the shared graph: capture by torch.export, dims, guards, lowering."""
