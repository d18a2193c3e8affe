"""What both readers of PyTorch models share: values, sizes, dtypes, weights, state."""
