"""Writes TensorFlow Lite files, with TensorFlow's converter in a separate process."""
