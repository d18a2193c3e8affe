"""The operator table of the TensorFlow frontend: `@tf_op("LeakyRelu")` registers a rule under the NodeDef's op.

Inputs are positional, attributes keyword, named as in TensorFlow. A rule for an operator that TensorFlow does not ship
gets every attribute of the node.

>>> import onnx_ir as ir
>>> from convert.frontends.tensorflow import tf_op
>>> from convert.graph import Graph
>>> @tf_op("MyCube")
... def cube(g, x, *, scale=1.0, T=None):
...     return g.Mul(g.Mul(g.Mul(x, x), x), g.const(scale, g.dtype(x)))
>>> g = Graph()
>>> x = g.input("x", ir.DataType.FLOAT, ("batch", 4))
>>> y = tf_op.apply(g, "MyCube", [x], {"scale": 0.5})
>>> y.producer().op_type, str(y.shape)
('Mul', '[batch,4]')
"""

from __future__ import annotations

from convert.rules import Rules

from .graph import opdefs

tf_op = Rules("TensorFlow", schema=opdefs.schema)
