"""The rule table of the Caffe2 backend: `rule(net, *inputs, **attributes)` for every ONNX operator that it writes.

Inputs are `net.Blob`s, None where they are absent; attributes are keyword, named as ONNX names them, with the schema's
defaults filled in; tensors among them are `onnx_ir` tensors, subgraphs callables `body(net, *inputs) -> blobs`.
"""

from __future__ import annotations

from convert.rules import Rules
from convert.rules.onnx_schemas import schema

onnx_op = Rules("Caffe2", schema=schema)
