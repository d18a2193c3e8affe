"""The metadata keys that are written into files do not change, because existing files have them."""

from __future__ import annotations

import pytest

from convert.graph import metadata

WRITTEN = {
    "OPERATOR_KEY": "convert.operator", "MODULE_KEY": "convert.module", "SOURCE_KEY": "convert.source",
    "DIMS_KEY": "convert.dims", "GUARDS_KEY": "convert.guards", "RANGE_KEY": "convert.range",
    "STATE_KEY": "convert.state", "MODE_KEY": "convert.mode", "LAYOUT_KEY": "convert.layout",
    "SIZE_CHECK_KEY": "convert.size_check", "WIDER_KEY": "convert.wider",
    "CANCELLING_KEY": "convert.variance",
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_a_key_stays_as_it_is(name: str) -> None:
    assert getattr(metadata, name) == WRITTEN[name]
