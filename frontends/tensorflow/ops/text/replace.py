"""Replacement in strings: ONNX has no such operator, but StringSplit splits at a text, and StringConcat joins.

Supported patterns are literal texts, or one character of a set, such as the punctuation that Keras's TextVectorization
strips. Python's syntax for these is the same as RE2's (https://github.com/google/re2/wiki/Syntax).
"""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...rules import tf_op

_PATTERN = tf_op.limit("StaticRegexReplace", "a pattern other than one text or one character of a set of ASCII")
_MARKS = set(".^$*+?{}[]|()")


@tf_op("StaticRegexReplace")
def static_regex_replace(g: Graph, input: ir.Value, *, pattern: str, rewrite: str, replace_global: bool) -> ir.Value:
    texts = _texts(pattern)
    if texts is None or "\0" in texts or "\\" in rewrite:
        raise Unsupported(_PATTERN)
    if not replace_global and len(texts) > 1:
        raise Unsupported("only the first match of several alternatives is to be replaced")
    texts = [t for t in texts if t != rewrite]
    if len(texts) > 1 and any(t in rewrite for t in texts):
        raise Unsupported("the replacement contains the replaced text")
    for text in texts:
        input = _replace(g, input, text, rewrite, replace_global)
    return input


@tf_op("RegexReplace")
def regex_replace(g: Graph, input: ir.Value, pattern: ir.Value, rewrite: ir.Value, *, replace_global: bool) -> ir.Value:
    given = [g.static(v) for v in (pattern, rewrite)]
    if any(v is None for v in given):
        raise Unsupported("a pattern or a replacement that depends on data")
    decoded = [v.item() if v is not None else "" for v in given]
    found, put = (t.decode() if isinstance(t, bytes) else str(t) for t in decoded)
    return static_regex_replace(g, input, pattern=found, rewrite=put, replace_global=replace_global)


def _texts(pattern: str) -> list[str] | None:
    """Return the texts that a pattern matches: itself, or the characters of a set; None for any other pattern."""
    inner = re.fullmatch(r"\[([^^](?:[^\\\]]|\\[^\w])*)\]|\[(\\[^\w](?:[^\\\]]|\\[^\w])*)\]", pattern, re.DOTALL)
    if inner is not None and "[:" not in pattern and pattern.isascii():
        compiled = re.compile(pattern)
        return [chr(n) for n in range(128) if compiled.fullmatch(chr(n))]
    plain = re.sub(r"\\([^\w])", lambda m: "" if m[1] in _MARKS | {"\\"} else m[1], pattern)
    if not pattern or "\\" in plain or _MARKS & set(plain):
        return None
    return [re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)]


def _replace(g: Graph, x: ir.Value, text: str, rewrite: str, everywhere: bool) -> ir.Value:
    """Split at each `text` and join the pieces with the replacement."""
    pieces, counts = g.StringSplit(x, delimiter=text, maxsplit=None if everywhere else 1, outputs=2)
    rank = g.rank(x)
    empty = g.const(np.array(""))
    body = g.body("piece")
    place = body.input("place", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    so_far = body.input("so_far", ir.DataType.STRING, g.shape(x))
    piece = body.Gather(pieces, place, axis=rank)
    if rewrite:
        inside = body.And(body.Greater(place, np.int64(0)), body.Less(place, counts))
        piece = body.StringConcat(body.Where(inside, g.const(np.array(rewrite)), empty), piece)
    body.output(body.const(np.array(True)), "again")
    body.output(body.StringConcat(so_far, piece), "joined")
    number = g.Squeeze(g.Shape(pieces, start=rank, end=rank + 1), [0])
    before = g.Expand(empty, g.dims(x)) if rank else empty
    return g.facts(g.Loop(number, None, before, body=body), ir.DataType.STRING, g.shape(x))
