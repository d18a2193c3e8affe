"""The rule table of the Caffe2 backend: `rule(net, *inputs, **attributes)` for every ONNX operator that it writes.

Inputs are `net.Blob`s, or None if absent. Attributes are keywords, named as in ONNX, with the schema's defaults filled
in. Tensors among them are `onnx_ir` tensors, subgraphs are callables `body(net, *inputs) -> blobs`.

>>> import convert, onnx.parser
>>> from convert.backends.caffe2 import onnx_op
>>> @onnx_op("mine::Cube")
... def cube(net, x):
...     return net.Mul(net.Mul(x, x), x)
>>> model = onnx.parser.parse_model(
...     '<ir_version: 10, opset_import: ["": 20, "mine": 1]> '
...     "cubes (float[n, 3] x) => (float[n, 3] y) { y = mine.Cube(x) }")
>>> _ = convert.convert(model, "caffe2", "cubes.caffe2", verify=False)
>>> convert.inspect("cubes.caffe2", inputs="x:float32[n,3]").operators
{'Mul': 2}
"""

from __future__ import annotations

from convert.rules.node_rules import NodeRules
from convert.rules.onnx_schemas import schema

onnx_op = NodeRules("Caffe2", schema=schema)
