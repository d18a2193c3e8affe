"""What the TensorFlow backend does to the shared graph before it is emitted."""
