"""Measure SavedModel → ONNX and the speed of the result, beside tf2onnx.

    python tests/benchmarks/reader.py --tf2onnx PYTHON [--rounds 3] [--networks ResNet50 …]

PYTHON is the interpreter of a virtual environment with tf2onnx. Networks of keras.applications are exported with random
weights. Each conversion is a new process, and the clocks start after its imports. Measured are CPU seconds (all
threads) and the peak of memory above that at the start. ONNX Runtime then runs both files in turn on one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from clocks import child, measured, record

NETWORKS = ("ResNet50", "MobileNetV2", "EfficientNetB0")


def export(network: str, folder: Path) -> dict[str, float]:
    """Write the SavedModel; return the MiB of its weights."""
    import keras
    import numpy as np

    module = getattr(keras.applications, network)(weights=None)
    drawn = np.random.default_rng(0)
    module.set_weights([w + drawn.uniform(0.01, 0.02, w.shape).astype(w.dtype) for w in module.get_weights()])
    module.export(folder / "saved", verbose=False)
    return {"weights": sum(w.nbytes for w in module.get_weights()) / 2**20}


def convert_one(who: str, folder: Path) -> dict[str, float]:
    """Convert in this process; return seconds, MiB and nodes."""
    import onnx
    import tensorflow as tf

    path = folder / f"{who}.onnx"
    if who == "ours":
        import convert

        with measured() as found:
            convert.convert(folder / "saved", "onnx", path, verify=False)
    else:
        import tf2onnx.convert

        with measured() as found:
            # The same options as TensorFlow's command line uses for --saved-model.
            graph, inputs, outputs, *_, initialized, shapes = _loaded(folder)
            with tf.device("/cpu:0"):
                tf2onnx.convert._convert_common(
                    graph,
                    name=path.stem,
                    opset=17,
                    input_names=inputs,
                    output_names=outputs,
                    tensors_to_rename=shapes,
                    initialized_tables=initialized,
                    output_path=str(path),
                )
    return {**found, "nodes": len(onnx.load(path).graph.node)}


def _loaded(folder: Path) -> tuple:
    from tf2onnx import tf_loader

    return tf_loader.from_saved_model(
        str(folder / "saved"), None, None, return_initialized_tables=True, return_tensors_to_rename=True
    )


def latency(folder: Path) -> dict[str, float]:
    """Return median CPU milliseconds of one picture by ONNX Runtime on one thread, the files in turn."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = {w: onnxruntime.InferenceSession(str(folder / f"{w}.onnx"), options) for w in ("ours", "theirs")}
    x = np.random.default_rng(0).random((1, 224, 224, 3), np.float32)
    times: dict[str, list[float]] = {who: [] for who in sessions}
    for turn in range(23):
        for who, session in sessions.items():
            start = time.process_time()
            session.run(None, {session.get_inputs()[0].name: x})
            if turn > 2:
                times[who].append(1000 * (time.process_time() - start))
    return {who: statistics.median(found) for who, found in times.items()}


def main() -> None:
    """Run every network `rounds` times and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf2onnx", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        what, network, folder = args.step[0], args.step[1], Path(args.step[2])
        steps = {"export": lambda: export(network, folder), "latency": lambda: latency(folder)}
        print(json.dumps(steps[what]() if what in steps else convert_one(what, folder)))
        return
    if not args.tf2onnx:
        parser.error("--tf2onnx is missing")
    print(f"{'network':<16} {'':<7} {'CPU s':>8} {'peak MiB':>9} {'/ weights':>9} {'nodes':>6} {'run ms':>8}")
    for network in args.networks:
        with tempfile.TemporaryDirectory() as folder:
            run = [__file__, "--step"]
            weights = child(*run, "export", network, folder)["weights"]
            rounds = []
            for _ in range(args.rounds):
                theirs = child(*run, "theirs", network, folder, python=args.tf2onnx)
                rounds.append({"theirs": theirs, "ours": child(*run, "ours", network, folder)})
                times = child(*run, "latency", network, folder)
                Path(folder, "ours.onnx").unlink()
        median = {s: {k: statistics.median(r[s][k] for r in rounds) for k in rounds[0][s]} for s in rounds[0]}
        for who, row in median.items():
            row["latency"] = times[who]
        ratio = {k: median["ours"][k] / median["theirs"][k] for k in median["ours"]}
        for key, measure, unit in (
            ("seconds", "CPU time of SavedModel → ONNX", "s"),
            ("memory", "peak memory of SavedModel → ONNX", "MiB"),
            ("latency", "CPU time of a run of the ONNX file", "ms"),
        ):
            record(network, measure, unit, median["ours"][key], median["theirs"][key], "tf2onnx")
        for who, row in median.items():
            print(
                f"{network:<16} {who:<7} {row['seconds']:8.2f} {row['memory']:9.1f} {row['memory'] / weights:9.2f} "
                f"{row['nodes']:6.0f} {row['latency']:8.2f}",
                flush=True,
            )
        print(
            f"{network:<16} {'ratio':<7} {ratio['seconds']:8.2f} {ratio['memory']:9.2f} {'':>9} {ratio['nodes']:6.2f} "
            f"{ratio['latency']:8.2f}   (weights {weights:.1f} MiB)"
        )


if __name__ == "__main__":
    main()
