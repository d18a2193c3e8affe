"""What the PyTorch backend does to the shared graph before it is emitted."""
