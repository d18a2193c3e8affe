"""Child processes with TensorFlow, started by the first test that needs one and shared by all modules."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.backends.tensorflow.ops.worker import Worker, Workers


@pytest.fixture(scope="session")
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    if find_spec("tensorflow") is None:
        pytest.skip("needs TensorFlow")
    found = {"0": Worker("0"), "1": Worker("1")}
    users = [item for item in request.session.items if "workers" in getattr(item, "fixturenames", ())]
    wanted = {item.callspec.params.get("onednn") for item in users if hasattr(item, "callspec")}
    for setting in wanted & found.keys():
        found[setting].start()  # the first row that is sent starts another process
    yield found
    for worker in found.values():
        if worker.process is not None:
            worker.process.kill()
            worker.process.wait()
