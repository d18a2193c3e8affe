"""Runs of a command are forked from processes that the command has made, and these end with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

FIXTURE = Path(__file__).parents[3] / "fixtures" / "mnist_cnn.onnx"

WARM = """
import json, os, sys
from pathlib import Path
import numpy as np
from convert import plugin
from convert.processes import process, run_here
from convert.processes import warm
from convert.processes.fork_client import ForkedProcess
from convert.request.source import Source

runner = plugin.runner_for("onnx")
runner.settings = lambda source: [{"SETTING": "1"}, {"SETTING": "0"}]
runner.is_imported = lambda: sys.argv[3] == "imported"
(frontend,) = [frontend for frontend in plugin.frontends().values() if "onnx" in frontend.KINDS]
frontend.preload = lambda: __import__("scipy.linalg")  # its OpenBLAS starts threads of its own by default
warm.allow_warm_processes()
held = open(Path(sys.argv[2]) / "held", "w")
warm.warm_up_other_settings("onnx")
warm.warm_up("onnx", ["onnx"])
warm.warm_up("onnx-object")
feed = {"image": np.ones((2, 1, 28, 28), np.float32)}
sockets = [warm.address_of("onnx", {}), warm.address_of("onnx-object", {}), warm.address_of("onnx", {"SETTING": "0"})]
found = {"sockets": sockets, "forked": [], "outputs": []}
for precision, setting in (("float32", 0), (run_here.AS_USED, 0), (run_here.AS_USED, 1)):
    child = process.execute(Source("onnx", Path(sys.argv[1])), [feed], [precision], setting=setting)
    found["forked"].append(isinstance(child.process, ForkedProcess))
    found["outputs"] += [float(next(iter(o[0].values())).sum()) for o in child.results().values()]
children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
links = [link for pid in children for link in Path(f"/proc/{pid}/fd").iterdir()]
found["open"] = [os.path.realpath(link) for link in links]  # one may be closed meanwhile
print(json.dumps(found | {"children": children}))
"""


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux")
@pytest.mark.parametrize("before", ["", "imported"])
def test_runs_are_forked_and_nothing_is_left(before: str, tmp_path: Path) -> None:
    """A process that has imported a runtime cannot fork one with other settings.

    TensorFlow keeps the kernels that it was imported with.
    """
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", WARM, str(FIXTURE), str(tmp_path), before]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    same, again, other = found["sockets"]
    assert same == again  # one runner has one process
    assert (other == "") if before else (other not in ("", same))  # this one has other variables
    assert found["forked"] == [True, True, not before]
    assert len(found["outputs"]) == 3
    assert not [
        place for place in found["open"] if place.endswith("/held")
    ]  # a run does not see it either, because it is in a sandbox
    np.testing.assert_allclose(found["outputs"], _expected(), rtol=1e-5)
    assert len(found["children"]) == (1 if before else 2)
    until = time.monotonic() + 10  # the kernel ends them after their parent has ended; on a busy machine not at once
    while (left := [pid for pid in found["children"] if _name(pid).startswith("python")]) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left


def _expected() -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(FIXTURE))
    return float(session.run(None, {"image": np.ones((2, 1, 28, 28), np.float32)})[0].sum())


def _name(pid: str) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return "" if fields.rpartition(")")[2].split()[0] == "Z" else fields.partition("(")[2]


def test_nothing_is_forked_where_nobody_allowed_it() -> None:
    from convert.processes import warm

    warm.warm_up_other_settings("onnx")
    warm.warm_up("onnx")
    assert not warm.address_of("onnx", {"SETTING": "0"})
