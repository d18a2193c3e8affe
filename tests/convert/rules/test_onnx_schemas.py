"""ONNX's schemas as a rule table uses them: which arguments are required, which may be absent, and defaults."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from convert.graph import OPSET
from convert.rules import REQUIRED, Argument
from convert.rules.onnx_schemas import onnx_schema, operator_of, plain_value, schema


@pytest.mark.parametrize(
    ("domain", "key"), [("", "Conv"), ("ai.onnx", "Conv"), ("com.microsoft", "com.microsoft::Conv")]
)
def test_the_key_of_a_node_names_its_domain_unless_it_is_onnxs_own(domain: str, key: str) -> None:
    assert operator_of(ir.Node(domain, "Conv", [])) == key


@pytest.mark.parametrize(
    ("operator", "positional"),
    [
        ("Gemm", [Argument("A"), Argument("B"), Argument("C", None)]),
        ("Clip", [Argument("input"), Argument("min", None), Argument("max", None)]),
        ("Concat", []),  # its only input is variadic
        ("Loop", [Argument("M", None), Argument("cond", None)]),  # the carried values are variadic
    ],
)
def test_inputs_are_required_may_be_absent_or_are_variadic(operator: str, positional: list[Argument]) -> None:
    found = schema(operator)
    assert found is not None
    assert list(found.positional) == positional


def test_attributes_have_the_schemas_defaults_as_python_data() -> None:
    found = schema("Conv")
    assert found is not None
    assert {a.name: a.default for a in found.keyword} == {
        "auto_pad": "NOTSET", "dilations": None, "group": 1, "kernel_shape": None, "pads": None, "strides": None,
    }  # fmt: skip
    concat = schema("Concat")
    assert concat is not None
    assert concat.keyword == (Argument("axis", REQUIRED),)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (b"linear", "linear"),
        ("linear", "linear"),
        (0.5, 0.5),
        (3, 3),
        ([b"Sigmoid", b"Tanh"], ["Sigmoid", "Tanh"]),
        ((1, 2), [1, 2]),
        (None, None),
    ],
)
def test_attribute_values_become_python_data(value: object, plain: object) -> None:
    found = plain_value(value)
    assert found == plain
    assert type(found) is type(plain)


def test_the_canonical_opset_comes_before_a_newer_one() -> None:
    """Cast has another schema in opset 24; Swish exists since 24."""
    cast, swish = onnx_schema("Cast"), onnx_schema("Swish")
    assert cast is not None
    assert cast.since_version <= OPSET
    if onnx.defs.onnx_opset_version() > OPSET:
        assert swish is not None
        assert swish.since_version > OPSET


def test_a_domain_is_part_of_the_key() -> None:
    scaler = onnx_schema("ai.onnx.ml::Scaler")
    assert scaler is None or scaler.domain == "ai.onnx.ml"
    assert onnx_schema("Scaler") is None
    assert onnx_schema("mine::Conv") is None
    assert schema("mine::Conv") is None
