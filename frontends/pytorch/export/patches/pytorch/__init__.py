"""Replacements for functions of PyTorch that torch.export cannot capture."""
