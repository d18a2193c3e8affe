"""The operator table of the Caffe2 frontend: `@caffe2_op("Relu")` registers a rule under the operator's type.

>>> import onnx_ir as ir
>>> from convert.frontends.caffe2 import caffe2_op
>>> from convert.graph import Graph
>>> @caffe2_op("MyCube")
... def cube(g, x):
...     return g.Mul(g.Mul(x, x), x)
>>> g = Graph()
>>> x = g.input("x", ir.DataType.FLOAT, ("batch", 4))
>>> caffe2_op.apply(g, "MyCube", [x]).producer().op_type
'Mul'
"""

from __future__ import annotations

from convert.rules import Rules, Schema

# Arguments that choose an implementation and do not change the result. brew passes `order` and `is_test` to all
# operators, and most ignore them; the rules of those that use them name them.
_ANY = Schema(
    implied=frozenset(
        {
            "ws_nbytes_limit", "exhaustive_search", "cudnn_exhaustive_search", "use_cudnn", "shared_buffer", "no_bias",
            "init_params", "float16_compute", "allow_broadcast_fastpath", "training_mode", "convert_inputs", "order",
            "is_test",
        }
    )
)  # fmt: skip

caffe2_op = Rules("Caffe2", schema=lambda operator: _ANY)
