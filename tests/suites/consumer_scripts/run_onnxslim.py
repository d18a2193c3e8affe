"""Simplify an ONNX file with onnxslim and run the result in onnxruntime."""

import onnxruntime
import onnxslim
from arrays import answer, feeds

path, inputs = feeds()
session = onnxruntime.InferenceSession(onnxslim.slim(path).SerializeToString(), providers=["CPUExecutionProvider"])
answer(session.run(None, inputs))
