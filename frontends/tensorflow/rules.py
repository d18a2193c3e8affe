"""The operator table of the TensorFlow frontend: `@node("LeakyRelu")` registers a rule under the NodeDef's op."""

from __future__ import annotations

from convert.rules import Rules

from .graph import opdefs

node = Rules("TensorFlow", schema=opdefs.schema)
