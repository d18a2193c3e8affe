"""What the Keras backend does to the shared graph before it is emitted."""
