"""Measure our Caffe2 nets on the real Caffe2, by profile, beside ONNX Runtime.

    CONVERT_CAFFE2_PYTHON=… python tests/benchmarks/caffe2.py [--networks resnet50 …] [--runs 9]

PyTorch networks of timm are converted to ONNX, and to nets of the profiles plain, nnpack and ideep. ONNX Runtime in
this process and Caffe2 in a child process run them in turn, on one thread, on one image. The figures are medians of CPU
milliseconds per call.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from clocks import record

PROFILES = ("plain", "nnpack", "ideep")

# Run nets on request: read the folder of a net per line, print the milliseconds of one run.
_CHILD = """
import json, sys, time
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace
workspace.GlobalInit(["caffe2", "--caffe2_log_level=2", "--caffe2_omp_num_threads=1"])
names = {}
def load(folder):
    workspace.SwitchWorkspace(folder, True)
    files = (open(f"{folder}/{name}.pb", "rb").read() for name in ("init_net", "predict_net"))
    init, predict = map(caffe2_pb2.NetDef.FromString, files)
    workspace.RunNetOnce(init)
    workspace.FeedBlob(predict.external_input[0], np.load(sys.argv[1]))
    workspace.CreateNet(predict, True)
    names[folder] = predict.name, predict.external_output[0]
for line in sys.stdin:
    folder = line.strip()
    if folder not in names:
        load(folder)
    workspace.SwitchWorkspace(folder)
    net, output = names[folder]
    start = time.process_time()
    workspace.RunNet(net)
    seconds = time.process_time() - start
    row = {"ms": 1000 * seconds, "output": workspace.FetchBlob(output).ravel().tolist()[:1000]}
    sys.stdout.write(json.dumps(row) + "\\n")
    sys.stdout.flush()
"""


def onnx_runtime(path: Path, image: np.ndarray) -> Callable[[], tuple[float, np.ndarray]]:
    """Return a function that runs the ONNX file once and returns CPU milliseconds and the output."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (name,) = (i.name for i in session.get_inputs())

    def run() -> tuple[float, np.ndarray]:
        start = time.process_time()
        (output,) = session.run(None, {name: image})
        return 1000 * (time.process_time() - start), output

    return run


def measure(network: str, runs: int, folder: Path) -> None:
    """Print the medians of one network."""
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import convert
    from tests.support.timm_helper import create

    module = create(network, 224)
    example = torch.randn(1, 3, 224, 224)
    image = example.numpy()
    np.save(folder / "image.npy", image)
    convert.convert(module, "onnx", folder / "model.onnx", inputs=[example], verify=False)
    for profile in PROFILES:
        nets = folder / f"{profile}.caffe2"
        convert.convert(folder / "model.onnx", "caffe2", nets, verify=False, profile=profile)
    command = [os.environ["CONVERT_CAFFE2_PYTHON"], "-I", "-c", _CHILD, str(folder / "image.npy")]
    run = onnx_runtime(folder / "model.onnx", image)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        times: dict[str, list[float]] = {name: [] for name in ("onnxruntime", *PROFILES)}
        worst = dict.fromkeys(PROFILES, 0.0)
        for turn in range(runs + 1):
            ms, want = run()
            row = {"onnxruntime": ms}
            for profile in PROFILES:
                child.stdin.write(f"{folder / profile}.caffe2\n")
                child.stdin.flush()
                answer = json.loads(child.stdout.readline())
                row[profile] = answer["ms"]
                worst[profile] = max(worst[profile], float(np.abs(answer["output"] - want.ravel()[:1000]).max()))
            if turn:  # the first run of each packs weights
                for name, value in row.items():
                    times[name].append(value)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        if name in worst:
            record(f"{network}, {name}", "CPU time of a run", "ms", value, medians["onnxruntime"], "onnxruntime")
        off = f", off by up to {worst[name]:.1e}" if name in worst else ""
        print(f"{network} {name}: {value:.1f} ms, {value / medians['onnxruntime']:.2f} × onnxruntime{off}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["resnet50"])
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    for network in arguments.networks:
        with tempfile.TemporaryDirectory() as name:
            measure(network, arguments.runs, Path(name))


if __name__ == "__main__":
    main()
