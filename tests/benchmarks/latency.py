"""Measure our TensorFlow graphs beside ONNX Runtime and the same network written in Keras.

    python tests/benchmarks/latency.py [--batches 1 8] [--runs 30] [--rounds 3] [--networks resnet50 …]
                                       [--onednn on off] [--graphs tf-frozen "twin frozen" …] [--minimum]
                                       [--onnx2tf PYTHON]

PyTorch networks of timm are converted to ONNX, to SavedModels (with variables and with constants) and to frozen graphs.
The `twin` of each is the network of keras.applications: called by Keras in a tf.function, exported by Keras, and
frozen. `tf-frozen` is the frozen graph in a tf.function, and `tf-frozen session` the same file in a
tf.compat.v1.Session. `tf jit` and `twin jit` are the SavedModel and Keras's call in a tf.function with
jit_compile=True, compiled by XLA.

The figures are medians of CPU milliseconds per call over three processes each, on one thread, or minimums with
`--minimum`, for a machine that does other work:

- Each graph has a process of its own. oneDNN caches its kernels by shape, not by whether the weights are constants, so
  in a shared process the first graph would choose the kernels of all others.
- The processes take turns, so that all see the machine in the same state. Three of each are needed, because one may be
  slower than the next for where its memory lies.
- In its turn a process makes two calls, and the second counts. The first finds the weights of another network in the
  cache.
- The C library keeps memory that is freed (`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`). By default it gives
  memory back in some processes and keeps it in others. A call of EfficientNet lost 8 to 12 ms of 45 to page faults in
  one process, and none in the next.

Also printed are the Transposes of our frozen graph, and how many of them move a weight.

TensorFlow computes with oneDNN by default where the processor has AVX512-VNNI, and with Eigen elsewhere. Both are
measured. With `--onnx2tf`, the interpreter of an environment that has it, the cost of the conversions follows
(`savedmodel.py`).
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

import savedmodel
from clocks import record

for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ[variable] = "1"
for variable in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
    os.environ[variable] = str(1 << 30)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ONEDNN = {"on": "1", "off": "0"}
TWINS = {"resnet50": "ResNet50", "mobilenetv2_100": "MobileNetV2", "efficientnet_b0": "EfficientNetB0"}
FORMATS = {
    "onnx": ("onnx", {}),
    "tf": ("tf", {}),
    "tf constants": ("tf", {"weights": "constants"}),
    "tf-frozen": ("tf-frozen", {}),
}
GRAPHS = (
    "onnxruntime",
    "tf",
    "tf constants",
    "tf jit",
    "tf-frozen",
    "tf-frozen session",
    "twin",
    "twin exported",
    "twin jit",
    "twin frozen",
)
BESIDE = ("onnxruntime", "twin", "twin frozen")
"""The graphs whose times are the denominators of the ratios."""


def artefacts(network: str, folder: Path, names: Sequence[str] = tuple(FORMATS)) -> dict[str, Path]:
    """Write one PyTorch module in each of the `names` of `FORMATS`; return the paths by name."""
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import convert
    from tests.support.timm_helper import create

    module = create(network, 224)
    found = {}
    for i, name in enumerate(names):
        fmt, options = FORMATS[name]
        found[name] = folder / f"{i}"
        convert.convert(module, fmt, found[name], inputs=[torch.randn(2, 3, 224, 224)], verify=False, **options)
    return found


def call_of(graph: str, network: str, folder: Path) -> Callable[[Any], Any]:
    """Return a function that runs one graph on an NCHW array or tensor, or Keras's network on an NHWC tensor."""
    if graph == "onnxruntime":
        return _session(folder / str(list(FORMATS).index("onnx")))
    if graph.startswith("twin"):
        return _twin(graph, network)
    path = folder / str(list(FORMATS).index(graph.removesuffix(" jit").removesuffix(" session")))
    import tensorflow as tf

    if graph == "tf-frozen":
        return _first(_frozen(tf.compat.v1.GraphDef.FromString(path.read_bytes())))
    if graph == "tf-frozen session":
        return _tf_session(tf.compat.v1.GraphDef.FromString(path.read_bytes()))
    if graph == "tf jit":
        signature = _signature(path)
        (name,) = signature.structured_input_signature[1]
        compiled = tf.function(lambda x: signature(**{name: x}), jit_compile=True)
        return lambda x: compiled(x[1])
    return _first(_signature(path))


def _session(path: Path) -> Callable[[Any], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    input_name = session.get_inputs()[0].name
    return lambda x: session.run(None, {input_name: x[0]})


def _tf_session(definition: Any) -> Callable[[Any], Any]:
    import tensorflow as tf

    given, output = _ends(definition)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(definition, name="")
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    run = tf.compat.v1.Session(graph=graph, config=config).make_callable(output, [f"{given.name}:0"])
    return lambda x: run(x[0])


def _twin(graph: str, network: str) -> Callable[[Any], Any]:
    import keras
    import numpy as np
    import tensorflow as tf

    twin = getattr(keras.applications, TWINS[network])(weights=None)
    drawn = np.random.default_rng(0)
    # A zero bias or a zero mean would be folded away when Keras's network is frozen.
    twin.set_weights([w + drawn.uniform(0.01, 0.02, w.shape).astype(w.dtype) for w in twin.get_weights()])
    if graph == "twin exported":
        with tempfile.TemporaryDirectory() as folder:
            twin.export(folder, verbose=False)
            return _second(_signature(Path(folder)))
    if graph == "twin jit":
        compiled = tf.function(lambda x: twin(x, training=False), jit_compile=True)
        return lambda x: compiled(x[2])
    function = tf.function(lambda x: twin(x, training=False)).get_concrete_function(
        tf.TensorSpec((None, 224, 224, 3), tf.float32)
    )
    if graph == "twin":
        return _second(function)
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    return _second(_frozen(convert_variables_to_constants_v2(function).graph.as_graph_def()))


def _signature(path: Path) -> Any:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    signature.kept = loaded
    return signature


def _frozen(definition: Any) -> Any:
    """Return a function that imports the frozen graph.

    A pruned `wrap_function`, or the function that `convert_variables_to_constants_v2` returns, is 0.4 ms slower per
    call: it first tries a signature that it lacks, and prints the input into an error message that it drops.
    """
    import tensorflow as tf

    given, output = _ends(definition)
    shape = tf.TensorShape(given.attr["shape"].shape)
    return tf.function(
        lambda x: tf.graph_util.import_graph_def(definition, {given.name: x}, [output], name="")[0]
    ).get_concrete_function(tf.TensorSpec(shape, tf.float32))


def _ends(definition: Any) -> tuple[Any, str]:
    """Return the node of the only input of a frozen graph, and the name of its only output."""
    used = {i.split(":")[0].lstrip("^") for n in definition.node for i in n.input}
    (given,) = (n for n in definition.node if n.op == "Placeholder")
    (output,) = (n.name for n in definition.node if n.name not in used)
    return given, f"{output}:0"


def _by_name(function: Any) -> Callable[[Any], Any]:
    """Return a call that passes the input by name if the function names it; by position a signature is slow."""
    signature = function.structured_input_signature
    if signature and signature[1]:
        (name,) = signature[1]
        return lambda x: function(**{name: x})
    return function  # type: ignore[no-any-return]


def _first(function: Any) -> Callable[[Any], Any]:
    """Return a call on the NCHW batch."""
    call = _by_name(function)
    return lambda x: call(x[1])


def _second(function: Any) -> Callable[[Any], Any]:
    """Return a call on the NHWC batch."""
    call = _by_name(function)
    return lambda x: call(x[2])


def transposes(path: Path) -> tuple[int, int]:
    """Count the Transposes in a frozen graph, and those whose data is a constant."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    constant = {n.name for n in definition.node if n.op == "Const"}
    found = [n for n in definition.node if n.op == "Transpose"]
    return len(found), sum(n.input[0] in constant for n in found)


def serve(graph: str, network: str, folder: Path) -> None:
    """Run one graph twice for each batch size on stdin; print the CPU milliseconds of the second run."""
    import numpy as np
    import tensorflow as tf

    function = call_of(graph, network, folder)
    given: dict[int, Any] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        batch = int(line)
        if batch not in given:
            x = np.random.default_rng(0).normal(size=(batch, 3, 224, 224)).astype(np.float32)
            given[batch] = (x, tf.constant(x), tf.constant(x.transpose(0, 2, 3, 1).copy()))
        function(given[batch])  # the caches still hold the data of the process before
        start = time.process_time()
        function(given[batch])
        print(1000 * (time.process_time() - start), flush=True)


class Server:
    """A process that serves one graph."""

    def __init__(self, graph: str, network: str, folder: Path) -> None:
        command = [sys.executable, __file__, "--serve", graph, "--networks", network, "--folder", str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._answer()

    def call(self, batch: int) -> float:
        """Return CPU milliseconds of one call."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{batch}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.process.args)} died")  # type: ignore[arg-type]
        return line


def measure(
    network: str, graphs: Sequence[str], batches: list[int], runs: int, rounds: int, of: Callable[[list[float]], float]
) -> None:
    """Print one network's table; `of` makes one figure of the times of all calls."""
    times: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = artefacts(network, folder)
        for _ in range(rounds):
            _round(network, graphs, folder, batches, -(-runs // rounds), times)
        count, weights = transposes(paths["tf-frozen"])
    for batch in batches:
        figures = {graph: of(times[batch, graph]) for graph in graphs}
        for graph, value in figures.items():
            ratios = {other: value / figures[other] for other in BESIDE if other in figures}
            if graph not in BESIDE:
                case = f"{network}, {graph}, batch {batch}, oneDNN {os.environ['TF_ENABLE_ONEDNN_OPTS']}"
                for other in ratios:
                    record(case, "CPU time of a run", "ms", value, figures[other], other)
            against = [f"{ratios[other]:6.2f}" if other in ratios else f"{'':6}" for other in BESIDE]
            print(f"{network:<16} {batch:>5} {graph:<17} {value:8.1f} {' '.join(against)}", flush=True)
    print(f"{network:<16} Transposes in the frozen graph: {count}, of weights: {weights}", flush=True)


def _round(
    network: str,
    graphs: Sequence[str],
    folder: Path,
    batches: list[int],
    runs: int,
    times: dict[tuple[int, str], list[float]],
) -> None:
    """Add the milliseconds of `runs` calls of each graph, after three that are not counted."""
    servers = {graph: Server(graph, network, folder) for graph in graphs}
    try:
        for batch in batches:
            for turn in range(runs + 3):
                for graph, server in servers.items():
                    taken = server.call(batch)
                    if turn >= 3:
                        times.setdefault((batch, graph), []).append(taken)
    finally:
        for server in servers.values():
            server.process.kill()


def main() -> None:
    """Measure each network in a process of its own, with each set of kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--runs", type=int, default=30, help="counted calls of each graph, over all rounds")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each graph")
    parser.add_argument("--networks", nargs="+", choices=TWINS, default=list(TWINS))
    parser.add_argument("--onednn", nargs="+", choices=ONEDNN, default=list(ONEDNN))
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--minimum", action="store_true", help="print minimums instead of medians")
    parser.add_argument("--onnx2tf", metavar="PYTHON")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", choices=GRAPHS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.networks[0], args.folder)
        return
    if args.one:
        of = min if args.minimum else statistics.median
        measure(args.networks[0], args.graphs, args.batches, args.runs, args.rounds, of)
        return
    for setting in args.onednn:
        environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": ONEDNN[setting]}
        print(f"oneDNN {setting}", flush=True)
        print(
            f"{'network':<16} {'batch':>5} {'graph':<17} {'CPU ms':>8} {'/ORT':>6} {'/twin':>6} {'/twin frozen':>6}",
            flush=True,
        )
        for network in args.networks:
            batches = [str(b) for b in args.batches]
            command = [sys.executable, __file__, "--one", "--networks", network, "--runs", str(args.runs)]
            command += ["--rounds", str(args.rounds), "--graphs", *args.graphs, *["--minimum"] * args.minimum]
            subprocess.run([*command, "--batches", *batches], check=True, stderr=subprocess.DEVNULL, env=environment)
    if args.onnx2tf:
        savedmodel.table(args.networks, 3, args.onnx2tf)


if __name__ == "__main__":
    main()
