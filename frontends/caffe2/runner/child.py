"""Runs Caffe2 nets for the runner, under Python 3.8 with a real Caffe2 and without this project.

    python child.py JOBS.json FIRST PARENT

JOBS.json is a list of jobs. Each has `net` (a folder with init_net.pb and predict_net.pb), `inputs` and `output`
(.npz), `outputs` (the requested blobs if the net names none), and `predictor` (whether to run the nets by
`workspace.Predictor`, as Python programs and phones do). Arrays are keyed by position, "0", "1" …; `names` has the
names of the inputs, and outputs are in the order of external_output. Jobs run from number FIRST on. Each prints "done N
[output names]" or "failed N message" (in JSON) to stdout, so the first missing line shows at which job the process
died. The process also dies when the process with the pid PARENT ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

import numpy as np


def run(job: dict[str, Any]) -> list[str]:
    """Run one job in a fresh workspace, write its outputs and return their names. Raises what Caffe2 raises."""
    from caffe2.proto import caffe2_pb2
    from caffe2.python import workspace

    # A net's databases are looked up in the workspace's root folder.
    workspace.ResetWorkspace(job["net"])
    with np.load(job["inputs"], allow_pickle=False) as arrays:
        feeds = {name: arrays[str(i)] for i, name in enumerate(job["names"])}
    if os.path.exists(os.path.join(job["net"], PREDICTOR)):
        from caffe2.python.predictor import predictor_exporter

        predict = predictor_exporter.prepare_prediction_net(os.path.join(job["net"], PREDICTOR), "minidb").Proto()
    else:
        init, predict = (read_net(caffe2_pb2.NetDef(), os.path.join(job["net"], name)) for name in FILES)
        if not workspace.RunNetOnce(init):
            raise RuntimeError("init_net failed")
    declared = bool(predict.external_output)
    if not declared:
        predict.external_output.extend(job["outputs"])
    made = {name for op in predict.op for name in op.output}
    lost = [n for n in predict.external_input if n not in feeds and n not in made and not workspace.HasBlob(n)]
    unknown = [name for name in feeds if name not in predict.external_input]
    if lost or unknown:
        raise RuntimeError(f"the net takes {list(predict.external_input)}, not {sorted(feeds)}")
    for name, array in feeds.items():
        workspace.FeedBlob(name, array)
    if job.get("predictor") and declared:
        results = workspace.Predictor(*(read_bytes(os.path.join(job["net"], name)) for name in FILES)).run(feeds)
        found = {name: results[i] for i, name in enumerate(predict.external_output)}
    else:
        if not workspace.RunNetOnce(predict):
            raise RuntimeError("predict_net failed")
        found = {name: workspace.FetchBlob(name) for name in predict.external_output}
    outputs = {}
    for i, name in enumerate(predict.external_output):
        outputs[str(i)] = found[name]
        if not isinstance(outputs[str(i)], np.ndarray):
            raise RuntimeError(f"output {name!r} is no tensor")
    np.savez(job["output"], **outputs)
    return list(predict.external_output)


def read_net(net: Any, path: str) -> Any:
    """Parse the NetDef in a file."""
    net.ParseFromString(read_bytes(path))
    return net


def read_bytes(path: str) -> bytes:
    """Return the content of a file."""
    with open(path, "rb") as file:
        return file.read()


def main(path: str, first: int) -> None:
    """Run the jobs from number `first` on."""
    with open(path) as file:
        jobs = json.load(file)
    for number in range(first, len(jobs)):
        try:
            names = run(jobs[number])
        except Exception as error:
            send_line(f"failed {number} " + json.dumps(f"{type(error).__name__}: {error}"))
        else:
            send_line(f"done {number} {json.dumps(names)}")


def send_line(line: str) -> None:
    """Send a line to the parent immediately."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends (Linux), as in the project's sandbox."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


SET_PARENT_DEATH_SIGNAL = 1
FILES = ("init_net.pb", "predict_net.pb")
PREDICTOR = "predictor.minidb"

if __name__ == "__main__":
    die_with_parent(int(sys.argv[3]))
    main(sys.argv[1], int(sys.argv[2]))
