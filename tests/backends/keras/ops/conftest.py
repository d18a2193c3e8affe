"""What Keras makes of the rows of a run: files of many rows are quick to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.backends.keras.ops.keras_support import Outcomes


@pytest.fixture(scope="session")
def keras_outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Of the rows that tests of this run are about, with static and with dynamic lengths."""
    from tests.backends.keras.ops.keras_support import refused, run_together

    users = [item for item in request.session.items if "keras_outcomes" in getattr(item, "fixturenames", ())]
    rows = [item.callspec.params["row"] for item in users if isinstance(item, pytest.Function)]
    found: Outcomes = {}
    for batch in (False, True):
        written = [row for row in rows if not refused(row, batch)]
        outputs = run_together(written, tmp_path_factory.mktemp("keras"), batch=batch)
        found.update({(id(row), batch): y for row, y in zip(written, outputs, strict=True)})
    return found
