"""Runs PyTorch models, as they are and in float64, and follows them operator by operator."""
