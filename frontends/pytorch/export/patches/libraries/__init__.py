"""Replacements for functions of transformers and torchvision while torch.export captures."""
