"""The table of ONNX Runtime's own operators, which its optimizer and quantizer write into files, and of experimental
operators of ONNX 1.0 to 1.4, which old exporters write without a domain.

`@runtime_op("com.microsoft::Gelu")` registers a rule that expresses the operator in ONNX, at the canonical opset.
Arguments have the names of ONNX Runtime's schemas (ContribOperators.md); an argument that a rule does not name is
refused.

>>> import onnx_ir as ir
>>> from convert.graph import Graph
>>> from convert.frontends.onnx.rules import runtime_op
>>> from convert.frontends.onnx import ops
>>> g = Graph()
>>> x = g.input("x", ir.DataType.FLOAT, ("batch", 4))
>>> runtime_op.apply(g, "com.microsoft::QuickGelu", [x]).producer().op_type
'Mul'
"""

from __future__ import annotations

from convert.rules import Rules

MICROSOFT = "com.microsoft"

runtime_op = Rules("ONNX Runtime")
