"""The options of the TensorFlow backend."""

from convert.plugin import Option

WEIGHTS = Option("weights", "variables", "How a SavedModel stores its weights.", choices=("variables", "constants"))
LABELS = Option("labels", "", "Labels of an output, one in each line, as metadata (tflite).", metavar="FILE", file=True)
IMAGE_INPUT = Option(
    "image_input",
    "",
    "How pixels become the input, as --image-as has it, as metadata (tflite).",
    metavar="HxW,KEY=VALUE,…",
)
