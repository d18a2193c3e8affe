"""Keras's outputs for the rows of a run; rows share a file, because one large file loads faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.backends.keras.ops.keras_support import Outcomes


@pytest.fixture(
    scope="session", params=[pytest.param(False, id="static", marks=pytest.mark.slow), pytest.param(True, id="dynamic")]
)
def keras_outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Return Keras's outputs for the rows of this run's tests, with dynamic lengths by default."""
    from tests.backends.keras.ops.keras_support import Outcomes, refused, run_together

    users = [item for item in request.session.items if "keras_outcomes" in getattr(item, "fixturenames", ())]
    calls = [item.callspec.params for item in users if isinstance(item, pytest.Function)]
    rows = [call["row"] for call in calls if call["keras_outcomes"] == request.param]
    written = [row for row in rows if not refused(row, request.param)]
    outputs = run_together(written, tmp_path_factory.mktemp("keras"), batch=request.param)
    return Outcomes(request.param, {id(row): y for row, y in zip(written, outputs, strict=True)})
