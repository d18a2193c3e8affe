"""Helpers on the values around a node."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from convert.graph.values import multiples_among_inputs


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("m = Mul (x, more) y = Max (x, m)", [1]),
        ("m = Mul (more, x) y = Max (m, x)", [0]),
        ("m = Mul (x, less) y = Max (x, m)", []),
        ("m = Mul (x, negative) y = Max (x, m)", []),
        ("m = Mul (x, z) y = Max (x, m)", [1]),
        ("m = Mul (x, z) y = Max (z, m, x)", [1]),
        ("m = Mul (x, more) y = Max (z, m)", []),
        ("m = Div (x, less) y = Max (x, m)", [1]),
        ("m = Div (x, more) y = Max (x, m)", []),
        ("m = Div (x, negative) y = Max (x, m)", []),
        ("m = Div (more, x) y = Max (x, m)", []),
        ("m = Neg (x) y = Max (x, m)", []),
    ],
)
def test_which_input_may_be_more_than_another(call: str, found: list[int]) -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n] x, float[n] z) => (float[n] y) '
        f"<float more = {{1.5}}, float less = {{0.5}}, float negative = {{-2}}> {{ {call} }}"
    )
    assert multiples_among_inputs(model.graph[-1]) == found


def test_every_multiple() -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n] x) => (float[n] y) <float less = {0.5}> '
        "{ m = Mul (x, less) y = Max (x, m) }"
    )
    assert multiples_among_inputs(model.graph[-1], every=True) == [1]
