"""Strings in the reference executor and in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from convert.errors import Unsupported
from convert.reference.executor import run
from tests.support.onnx_support import info, model, read


@pytest.mark.parametrize(
    "attributes", [{"case_change_action": "LOWER"}, {"stopwords": ["ab"], "is_case_sensitive": 0}, {"stopwords": ["x"]}]
)
@pytest.mark.parametrize("words", [["", "Ab", "x y", ""], ["Ab"]])
def test_a_row_without_stop_words(attributes: dict[str, Any], words: list[str]) -> None:
    node = helper.make_node("StringNormalizer", ["x"], ["y"], **{"is_case_sensitive": 1, "locale": "C", **attributes})
    proto = model([node], [info("x", ["n"], TensorProto.STRING)], [info("y", None, TensorProto.STRING)])
    x = np.array(words, dtype=object)
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    assert run(read(proto), {"x": x})["y"].tolist() == wanted.tolist()


@pytest.mark.parametrize("pattern", ["a+", "(ab|c)*d?", r"[a-z0-9.]+@[a-z]+\.[a-z]{2,}", "(a+)+b"])
def test_patterns(pattern: str) -> None:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    proto = model([node], [info("x", [None], TensorProto.STRING)], [info("y", None, TensorProto.BOOL)])
    x = np.array(["", "aaa", "ababcd", "a.b@c.de", "aab"], dtype=object)
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    assert run(read(proto), {"x": x})["y"].tolist() == wanted.tolist()


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", "a*a*a*a*a*a*b", "(a?){30}b", "(" * 3000 + ")" * 3000])
def test_patterns_over_which_python_goes_for_ever(pattern: str) -> None:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    proto = model([node], [info("x", [None], TensorProto.STRING)], [info("y", None, TensorProto.BOOL)])
    with pytest.raises(Unsupported, match="RegexFullMatch"):
        run(read(proto), {"x": np.array(["a" * 60], dtype=object)})
