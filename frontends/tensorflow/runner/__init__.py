"""Runs TensorFlow and Keras models, as deployed and in float64, and traces them operator by operator."""
