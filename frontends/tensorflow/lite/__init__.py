"""Reads TensorFlow Lite files, and runs them."""
