"""Replacements that save time while torch.export captures, for the same program."""
