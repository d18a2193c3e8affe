"""PyTorch's files: which are safe to load, and what is in them."""
