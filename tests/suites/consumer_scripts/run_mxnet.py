"""Run an ONNX file in MXNet, as a Gluon block."""

import mxnet
from arrays import answer, feeds
from mxnet.contrib import onnx

path, inputs = feeds()
block = onnx.import_to_gluon(path, ctx=mxnet.cpu())
made = block(*[mxnet.nd.array(array, dtype=array.dtype) for array in inputs.values()])
answer([output.asnumpy() for output in (made if isinstance(made, (list, tuple)) else [made])])
