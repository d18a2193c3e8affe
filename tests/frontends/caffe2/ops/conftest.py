"""The nets of foreign writers, run once by the real Caffe2 for all tests of a run."""

from __future__ import annotations

import pytest
from convert.frontends.caffe2.runner.runner import run_jobs

from tests.frontends.caffe2.ops.support import Foreign, net
from tests.support.caffe2_support import needs_caffe2


@pytest.fixture(scope="session")
def foreign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    """Return the nets of the rows that tests of this run use, and their outcomes in the real Caffe2."""
    if reason := needs_caffe2():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("foreign")
    users = [item for item in request.session.items if "foreign" in getattr(item, "fixturenames", ())]
    rows = [item.callspec.params["row"] for item in users if isinstance(item, pytest.Function)]
    jobs = [net(folder / f"{i}.caffe2", row) for i, row in enumerate(rows)]
    return {id(row): pair for row, pair in zip(rows, zip(jobs, run_jobs(jobs), strict=True), strict=True)}
