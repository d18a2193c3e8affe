"""Layers that TensorFlow writes as arithmetic, found again backwards from their last operator."""
