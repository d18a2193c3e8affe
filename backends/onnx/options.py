"""The options of the ONNX backend."""

from convert.plugin import Option

OLDEST, NEWEST = 7, 28

# By default the newest that every runtime in use today reads.
OPSET = Option("opset", 20, "Opset of ONNX output.", low=OLDEST, high=NEWEST)
