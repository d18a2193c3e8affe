"""The options of the ONNX backend."""

from convert.plugin import Option

from .layouts import LAYOUTS

OLDEST, NEWEST = 7, 28

# The default is the newest opset that every runtime in use today reads.
OPSET = Option("opset", 20, "Opset of ONNX output.", low=OLDEST, high=NEWEST)
KEEP_IO = Option("keep_io", False, "Keep inputs and outputs in float32 (onnx, with --dtype).")
BLOCK_SIZE = Option(
    "block_size",
    32,
    "Weights that share one scale (onnx, with --quantize int4 or int8-weights).",
    choices=(16, 32, 64, 128, 256),
)
ACCURACY_LEVEL = Option(
    "accuracy_level",
    "",
    "How onnxruntime multiplies by weights in blocks: 0 and 1 in float32, 2 in float16, 4 with activations rounded to "
    "8 bits in blocks (onnx, with --quantize int4 or int8-weights; 4 with --runtime genai, else 0).",
    choices=("0", "1", "2", "4"),
    metavar="N",
)
ZERO_POINTS = Option(
    "zero_points",
    False,
    "Store a zero point besides the scale of each block (onnx, with --quantize int4 or int8-weights).",
)
RUNTIME = Option(
    "runtime",
    "",
    "Write a folder as this runtime reads it: -o FOLDER (onnx).",
    choices=tuple(LAYOUTS),
    metavar="NAME",
)
