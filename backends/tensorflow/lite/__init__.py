"""Writes TensorFlow Lite files, through TensorFlow's converter in a process of its own."""
