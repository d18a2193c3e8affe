"""Run an ONNX file in onnxruntime, as its users call it."""

import onnxruntime
from arrays import answer, feeds

path, inputs = feeds()
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
answer(session.run(None, inputs))
