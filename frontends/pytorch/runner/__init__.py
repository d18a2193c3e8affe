"""Runs PyTorch models, in their own dtypes and in float64, and traces them operator by operator."""
