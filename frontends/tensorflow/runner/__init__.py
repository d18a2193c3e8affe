"""Runs TensorFlow and Keras models, as they are and in float64, and follows them operator by operator."""
