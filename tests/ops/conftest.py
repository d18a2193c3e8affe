"""Fixtures that several operator tables share."""

from __future__ import annotations

from pathlib import Path

import pytest
from caffe2_support import Nets, needs_caffe2, write_rows


@pytest.fixture(scope="session")
def caffe2_nets(tmp_path_factory: pytest.TempPathFactory) -> Nets:
    """The net of every row of the Caffe2 table, written once."""
    from test_to_caffe2 import ROWS

    return write_rows([param.values[0] for param in ROWS], Path(tmp_path_factory.mktemp("nets")))


@pytest.fixture(scope="session")
def caffe2_ends(caffe2_nets: Nets) -> Nets:
    """The same nets with what the real Caffe2 makes of them, if there is one: one start for all of them."""
    return caffe2_nets if needs_caffe2() else caffe2_nets.run()


@pytest.fixture
def caffe2_outcomes(caffe2_ends: Nets) -> Nets:
    """The nets with their outcomes; without a Caffe2 the test is skipped."""
    if reason := needs_caffe2():
        pytest.skip(reason)
    return caffe2_ends
