"""How fast our TensorFlow graphs run, against ONNX Runtime and against the same network written in Keras.

    python tests/benchmarks/latency.py [--batches 1 8] [--runs 30] [--networks resnet50 …] [--onednn on off]

PyTorch networks of timm are converted to ONNX, to SavedModels (with variables and with constants) and to frozen graphs;
their twins of keras.applications run as Keras calls them (in a tf.function), as Keras exports them, and frozen.

All of a network's graphs run in turn in one new process on one thread, so that each sees the same state of the machine:
medians of CPU milliseconds per call. Also printed: the Transposes of our frozen graph, and how many move a weight.

By default TensorFlow computes with oneDNN where the processor has instructions for neural networks (AVX512-VNNI), and
with Eigen elsewhere: two sets of kernels, of different speed on one machine. Both are measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ONEDNN = {"on": "1", "off": "0"}
TWINS = {"resnet50": "ResNet50", "mobilenetv2_100": "MobileNetV2", "efficientnet_b0": "EfficientNetB0"}
FORMATS = {
    "onnx": ("onnx", {}),
    "tf": ("tf", {}),
    "tf constants": ("tf", {"weights": "constants"}),
    "tf-frozen": ("tf-frozen", {}),
}


def artefacts(network: str, folder: Path, names: Sequence[str] = tuple(FORMATS)) -> dict[str, Path]:
    """The network as each of `names` in `FORMATS`, written from one PyTorch module."""
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from timm_helper import create

    import convert

    module = create(network, 224)
    found = {}
    for i, name in enumerate(names):
        fmt, options = FORMATS[name]
        found[name] = folder / f"{i}"
        convert.convert(module, fmt, found[name], inputs=[torch.randn(2, 3, 224, 224)], verify=False, **options)
    return found


def calls(network: str, paths: dict[str, Path]) -> dict[str, Callable[[Any], Any]]:
    """Functions that run each graph on an NCHW batch, or its twin on an NHWC one."""
    import keras
    import numpy as np
    import onnxruntime
    import tensorflow as tf

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(paths["onnx"], options)
    input_name = session.get_inputs()[0].name
    found: dict[str, Callable[[Any], Any]] = {"onnxruntime": lambda x: session.run(None, {input_name: x[0]})}
    for name in ("tf", "tf constants"):
        found[name] = _first(_signature(paths[name]))
    definition = tf.compat.v1.GraphDef.FromString(paths["tf-frozen"].read_bytes())
    found["tf-frozen"] = _first(_frozen(definition))
    twin = getattr(keras.applications, TWINS[network])(weights=None)
    drawn = np.random.default_rng(0)
    # A bias of zeros and a mean of zeros would be folded away in the frozen twin.
    twin.set_weights([w + drawn.uniform(0.01, 0.02, w.shape).astype(w.dtype) for w in twin.get_weights()])
    function = tf.function(lambda x: twin(x, training=False)).get_concrete_function(
        tf.TensorSpec((None, 224, 224, 3), tf.float32)
    )
    found["twin"] = _second(function)
    with tempfile.TemporaryDirectory() as folder:
        twin.export(folder, verbose=False)
        found["twin exported"] = _second(_signature(Path(folder)))
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    found["twin frozen"] = _second(convert_variables_to_constants_v2(function))
    return found


def _signature(path: Path) -> Any:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    signature.kept = loaded
    return signature


def _frozen(definition: Any) -> Any:
    import tensorflow as tf

    nodes = {n.name: n for n in definition.node}
    used = {i.split(":")[0].lstrip("^") for n in definition.node for i in n.input}
    inputs = [n.name + ":0" for n in definition.node if n.op == "Placeholder"]
    outputs = [name + ":0" for name in nodes if name not in used]
    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(definition, name=""), [])
    return wrapped.prune([wrapped.graph.get_tensor_by_name(x) for x in inputs],
                         [wrapped.graph.get_tensor_by_name(y) for y in outputs])  # fmt: skip


def _first(function: Any) -> Callable[[Any], Any]:
    """A call on the NCHW batch."""
    signature = function.structured_input_signature
    if signature and signature[1]:
        (name,) = signature[1]
        return lambda x: function(**{name: x[1]})
    return lambda x: function(x[1])


def _second(function: Any) -> Callable[[Any], Any]:
    """A call on the NHWC batch."""
    return lambda x: function(x[2])


def transposes(path: Path) -> tuple[int, int]:
    """Transposes in a frozen graph, and those among them whose data is a constant."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    constant = {n.name for n in definition.node if n.op == "Const"}
    found = [n for n in definition.node if n.op == "Transpose"]
    return len(found), sum(n.input[0] in constant for n in found)


def measure(network: str, batches: list[int], runs: int) -> None:
    """Print one network's table."""
    import numpy as np
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        paths = artefacts(network, Path(folder))
        functions = calls(network, paths)
        for batch in batches:
            x = np.random.default_rng(0).normal(size=(batch, 3, 224, 224)).astype(np.float32)
            given = (x, tf.constant(x), tf.constant(x.transpose(0, 2, 3, 1).copy()))
            times: dict[str, list[float]] = {name: [] for name in functions}
            for turn in range(runs + 3):
                for name, function in functions.items():
                    start = time.process_time()
                    function(given)
                    if turn >= 3:
                        times[name].append(1000 * (time.process_time() - start))
            median = {name: statistics.median(found) for name, found in times.items()}
            for name, value in median.items():
                against = [f"{value / median[b]:6.2f}" for b in ("onnxruntime", "twin", "twin frozen")]
                print(f"{network:<16} {batch:>5} {name:<14} {value:8.1f} {' '.join(against)}", flush=True)
        count, weights = transposes(paths["tf-frozen"])
        print(f"{network:<16} Transposes in the frozen graph: {count}, of weights: {weights}", flush=True)


def main() -> None:
    """Measure each network in a process of its own, with either set of kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--networks", nargs="+", choices=TWINS, default=list(TWINS))
    parser.add_argument("--onednn", nargs="+", choices=ONEDNN, default=list(ONEDNN))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        measure(args.networks[0], args.batches, args.runs)
        return
    for setting in args.onednn:
        environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": ONEDNN[setting]}
        print(f"oneDNN {setting}", flush=True)
        print(
            f"{'network':<16} {'batch':>5} {'graph':<14} {'CPU ms':>8} {'/ORT':>6} {'/twin':>6} {'/twin frozen':>6}",
            flush=True,
        )
        for network in args.networks:
            batches = [str(b) for b in args.batches]
            command = [sys.executable, __file__, "--one", "--networks", network, "--runs", str(args.runs)]
            subprocess.run([*command, "--batches", *batches], check=True, stderr=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    main()
