"""Run a SavedModel by its signature."""

import tensorflow as tf
from arrays import answer, feeds

path, inputs = feeds()
call = tf.saved_model.load(path).signatures["serving_default"]
found = call(**{name: tf.constant(array) for name, array in inputs.items()})
answer([found[name].numpy() for name in sorted(found)])
