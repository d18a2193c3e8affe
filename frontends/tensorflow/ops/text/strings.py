"""String operators, as far as ONNX has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...rules import tf_op


@tf_op("StringLower")
def string_lower(g: Graph, input: ir.Value, *, encoding: str) -> ir.Value:
    return _change_case(g, input, "LOWER", encoding)


@tf_op("StringUpper")
def string_upper(g: Graph, input: ir.Value, *, encoding: str) -> ir.Value:
    return _change_case(g, input, "UPPER", encoding)


def _change_case(g: Graph, x: ir.Value, case: str, encoding: str) -> ir.Value:
    """Change case, one row of strings at a time in ONNX. Letters beyond ASCII need a locale, which a machine may
    lack.
    """
    if encoding:
        raise Unsupported(f"encoding={encoding!r}: letters beyond ASCII take a locale of the machine that runs it")
    flat = g.StringNormalizer(g.Reshape(x, [-1]), case_change_action=case, is_case_sensitive=1, locale="C")
    return g.facts(g.Reshape(flat, g.dims(x)), shape=None if x.shape is None else g.shape(x))


@tf_op("StringJoin")
def string_join(g: Graph, inputs: Sequence[ir.Value], *, separator: str) -> ir.Value:
    whole = inputs[0]
    for part in inputs[1:]:
        if separator:
            whole = g.StringConcat(whole, g.const(np.array(separator)))
        whole = g.StringConcat(whole, part)
    return whole


@tf_op("StaticRegexFullMatch")
def static_regex_full_match(g: Graph, input: ir.Value, *, pattern: str) -> ir.Value:
    return g.RegexFullMatch(input, pattern=pattern)


_HASH = "ONNX has no such operator on strings, unless there is one bucket"


def _hash_bucket(operator: str) -> None:
    reason = tf_op.limit(operator, _HASH)

    @tf_op(operator)
    def rule(g: Graph, input: ir.Value, *, num_buckets: int, key: Sequence[int] = ()) -> ir.Value:
        """Return the hash bucket: with a single bucket, as for most out-of-vocabulary words, it is 0 for any text."""
        if num_buckets != 1:
            raise Unsupported(reason)
        return g.facts(g.Expand(g.const(np.int64(0)), g.Shape(input)), ir.DataType.INT64, g.shape(input))


for _operator in ("StringToHashBucketFast", "StringToHashBucketStrong"):
    _hash_bucket(_operator)


@tf_op("StringToNumber")
def string_to_number(g: Graph, string_tensor: ir.Value, *, out_type: ir.DataType) -> ir.Value:
    return g.Cast(string_tensor, to=out_type)
