"""PyTorch's files: whether they are safe to load, and what they contain."""
