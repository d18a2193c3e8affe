"""Run an ONNX file in tract, optimized."""

import tract
from arrays import answer, feeds

path, inputs = feeds()
runnable = tract.onnx().load(path).into_model().into_runnable()
answer([output.to_numpy() for output in runnable.run(list(inputs.values()))])
