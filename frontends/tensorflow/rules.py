"""The operator table of the TensorFlow frontend: `@tf_op("LeakyRelu")` registers a rule under the NodeDef's op."""

from __future__ import annotations

from convert.rules import Rules

from .graph import opdefs

tf_op = Rules("TensorFlow", schema=opdefs.schema)
