"""Input specifications as users write them."""

from __future__ import annotations

import pytest

from convert.errors import UsageError
from convert.graph.inputs import match_specs
from convert.request.options import DimSpec, InputSpec, parse_input


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "x:float32[batch,3,224,224]",
            InputSpec("x", "float32", (DimSpec(name="batch"), DimSpec(3), DimSpec(224), DimSpec(224))),
        ),
        ("[1,3]", InputSpec(None, None, (DimSpec(1), DimSpec(3)))),
        ("1,3", InputSpec(None, None, (DimSpec(1), DimSpec(3)))),
        ("2, n,?", InputSpec(None, None, (DimSpec(2), DimSpec(name="n"), DimSpec()))),
        ("x:int64", InputSpec("x", "int64", None)),
        ("int64[]", InputSpec(None, "int64", ())),
        ("x:[n=1..8,?]", InputSpec("x", None, (DimSpec(name="n", low=1, high=8), DimSpec()))),
        (
            "ids:int64[b=..4,seq=2..]",
            InputSpec("ids", "int64", (DimSpec(name="b", high=4), DimSpec(name="seq", low=2))),
        ),
        ("mask:int64[b,past+new]", InputSpec("mask", "int64", (DimSpec(name="b"), DimSpec(name="past+new")))),
        ("[n+1]", InputSpec(None, None, (DimSpec(name="n+1"),))),
        ("float32", InputSpec(None, "float32", None)),
        ("[n1234567890123456789]", InputSpec(None, None, (DimSpec(name="n1234567890123456789"),))),
        ("onnx::Conv_0:float32[1]", InputSpec("onnx::Conv_0", "float32", (DimSpec(1),))),
        ("Scope_1/x", InputSpec("Scope_1/x")),
        ("scope/x:0", InputSpec("scope/x:0")),
        ("scope/x:0:float32[1]", InputSpec("scope/x:0", "float32", (DimSpec(1),))),
    ],
)
def test_reads(text: str, expected: InputSpec) -> None:
    assert parse_input(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "x:float99[1]", "x:float32[1", "x:float32[1,,2]", "x:float32[n=8..1]", "x:float32[n+]",
     "x:float32[2+n]", "x:float32[a b]", f"x:float32[{2**63}]", f"x:float32[n=1..{2**63}]", f"x:float32[{'9' * 5000}]"],
)  # fmt: skip
def test_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        parse_input(text)


@pytest.mark.parametrize("text", ["x:float32[batch,3,224,224]", "ids:int64[b=1..8,seq]", "x:float32[]", "[1,3]"])
def test_prints_as_it_was_written(text: str) -> None:
    assert str(parse_input(text)) == text


def test_a_tensor_of_tensorflow_is_its_node() -> None:
    first, second = InputSpec("x:0", "float32"), InputSpec(None, "int64")
    assert match_specs(["x", "y"], [first, second]) == {"x": first, "y": second}
    with pytest.raises(UsageError, match="no input"):
        match_specs(["x"], [InputSpec("x:1")])
