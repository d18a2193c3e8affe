"""The options of the TensorFlow backend."""

from convert.plugin import Option

WEIGHTS = Option("weights", "variables", "How a SavedModel holds its weights.", choices=("variables", "constants"))
