"""If memory runs out, the error names the large inputs."""

from __future__ import annotations

import pytest

from convert.errors import ResourceLimit, UsageError
from convert.outcome.report import Tensor
from convert.request.given_inputs import naming_large_inputs
from convert.request.options import Options, parse_input

SMALL = Tensor("x", "float32", ("batch", 3, 224, 224))


@pytest.mark.parametrize(
    ("spec", "known", "told"),
    [
        ("x:float32[100000,100000]", (), "the input x (float32[100000,100000]) alone has 40 GB"),
        ("float64[n,30000,30000]", (SMALL,), "the input (float64[n,30000,30000]) alone has 7.2 GB"),
        ("x", (Tensor("x", "float32", (40000, 40000)),), "the input x (float32[40000,40000]) alone has 6.4 GB"),
        ("x:bool[n,4000000000]", (), "the input x (bool[n,4000000000]) alone has 4.0 GB"),
    ],
)
@pytest.mark.parametrize("error", [MemoryError(), ResourceLimit("out of memory while verifying", hint="give more")])
def test_a_large_input_is_named(spec: str, known: tuple[Tensor, ...], told: str, error: Exception) -> None:
    with pytest.raises(ResourceLimit) as raised, naming_large_inputs(Options(inputs=(parse_input(spec),)), known):
        raise error
    assert raised.value.message.startswith("out of memory")
    assert raised.value.message.endswith(f": {told}")
    assert "--input" in raised.value.hint


@pytest.mark.parametrize(
    "error", [ResourceLimit("out of memory"), MemoryError(), UsageError("no"), RuntimeError("other")]
)
def test_another_error_and_small_inputs_are_left_alone(error: Exception) -> None:
    large = Options(inputs=(parse_input("x:float32[100000,100000]"),))
    given = Options() if "memory" in str(error) or isinstance(error, MemoryError) else large
    with pytest.raises(type(error)) as raised, naming_large_inputs(given, (SMALL,)):
        raise error
    assert raised.value is error
