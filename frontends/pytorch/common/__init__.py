"""Helpers that both readers of PyTorch models share: values, sizes, dtypes, weights, state."""
