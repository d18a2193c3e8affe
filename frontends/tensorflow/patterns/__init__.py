"""Rewrites operators that TensorFlow puts around convolutions and matrix products."""
