"""TensorFlow graphs as data: bodies, attributes, control flow of TensorFlow 1, variables, tables."""
