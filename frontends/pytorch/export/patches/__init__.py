"""Replacements for PyTorch's functions while torch.export captures."""
