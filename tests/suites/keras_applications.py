"""Convert every family of keras.applications at small sizes, and verify each pair.

    python tests/suites/keras_applications.py [NAME …] [--pairs onnx saved back caffe2] [--tf2onnx PYTHON]

Each network is built in a process of its own, under limits of time and memory, with random weights that its outputs
depend on. The pairs are

    onnx      a .keras file → ONNX
    saved     a SavedModel → ONNX; with --tf2onnx also nodes and transposes of that converter
    back      .keras → ONNX → SavedModel, compared with the .keras file
    caffe2    .keras → Caffe2, if CONVERT_CAFFE2_PYTHON names one

PYTHON is the interpreter of an environment with tf2onnx. A line of JSON for each pair goes to stdout, a summary to
stderr. The exit code is 0 only if every pair passes or is a declared gap.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

PAIRS = ("onnx", "saved", "back", "caffe2")
PASS, FAILED, GAP, STALE, SKIPPED = "pass", "failed", "gap", "stale gap", "skipped"

# Family (a module of keras.applications): networks.
FAMILIES: dict[str, tuple[str, ...]] = {
    "convnext": ("small_convnext", "ConvNeXtTiny"),
    "densenet": ("DenseNet121",),
    "efficientnet": ("EfficientNetB0",),
    "efficientnet_v2": ("EfficientNetV2B0",),
    "inception_resnet_v2": ("InceptionResNetV2",),
    "inception_v3": ("InceptionV3",),
    "mobilenet": ("MobileNet",),
    "mobilenet_v2": ("MobileNetV2",),
    "mobilenet_v3": ("MobileNetV3Small", "MobileNetV3Large"),
    "nasnet": ("NASNetMobile",),
    "resnet": ("ResNet50",),
    "resnet_v2": ("ResNet50V2",),
    "vgg16": ("VGG16",),
    "vgg19": ("VGG19",),
    "xception": ("Xception",),
}
NAMES = {name: family for family, names in FAMILIES.items() for name in names}

# Declared gaps, by network and pair, with the reason.
GAPS: dict[tuple[str, str], str] = {}

# The least relative change of the outputs with another input for which agreement proves something.
SENSITIVE = 1e-3

# Convert as tf2onnx's command line does with --saved-model, and print the counts of nodes and transposes.
THEIRS = """
import json, sys
import onnx, tensorflow as tf, tf2onnx.convert
from tf2onnx import tf_loader

graph, inputs, outputs, *_, tables, shapes = tf_loader.from_saved_model(
    sys.argv[1], None, None, return_initialized_tables=True, return_tensors_to_rename=True)
with tf.device("/cpu:0"):
    proto, _ = tf2onnx.convert._convert_common(graph, name="theirs", opset=17, input_names=inputs, output_names=outputs,
                                               tensors_to_rename=shapes, initialized_tables=tables)
types = [n.op_type for n in proto.graph.node]
print(json.dumps([len(types), types.count("Transpose")]))
"""


@dataclass
class Outcome:
    """The outcome of one network and pair.

    `ratio` is the largest error of an output divided by its noise floor (up to 4 is a pass), `twin` the distance of the
    graph in float64 from the source, `moved` the change of the outputs with another input. `theirs_…` are tf2onnx's
    counts.
    """

    name: str
    family: str
    pair: str
    outcome: str = FAILED
    seconds: float = 0.0
    peak_mib: int = 0
    nodes: int = 0
    transposes: int = 0
    theirs_nodes: int = 0
    theirs_transposes: int = 0
    ratio: float = 0.0
    twin: float = 0.0
    moved: float = 0.0
    error: str = ""


# -- in the process of one network ------------------------------------------------------------------------------------


def work(name: str, pairs: Sequence[str], seeds: int, seconds: int, tf2onnx: str) -> None:
    """Print the outcome of each pair as a line of JSON."""
    from tests.support.keras_helper import create

    with tempfile.TemporaryDirectory(prefix="convert-keras-") as place:
        folder = Path(place)
        model = create(name)
        model.save(folder / "model.keras")
        if "saved" in pairs:
            model.export(folder / "model.savedmodel", verbose=False)
        for pair in pairs:
            outcome = Outcome(name, NAMES[name], pair)
            start = time.perf_counter()
            try:
                outcome.outcome = PASS if _pair(outcome, folder, seeds, seconds) else SKIPPED
                if pair == "saved" and tf2onnx:
                    outcome.theirs_nodes, outcome.theirs_transposes = _theirs(tf2onnx, folder, seconds)
            except Exception as error:
                outcome.error = f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
            outcome.seconds = round(time.perf_counter() - start, 1)
            reason = GAPS.get((name, pair))
            if reason is not None and outcome.outcome != SKIPPED:
                outcome.outcome = STALE if outcome.outcome == PASS else GAP
                outcome.error = f"{reason} ({outcome.error})"
            usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            outcome.peak_mib = max(usage) // 1024
            print(json.dumps(vars(outcome), ensure_ascii=False), flush=True)


def _pair(outcome: Outcome, folder: Path, seeds: int, seconds: int) -> bool:
    """Convert, verify and fill in the figures; return False if the target cannot be run here."""
    import convert
    from convert.parity.method import VerifyMethod
    from convert.parity.verify import unavailable_reason
    from convert.processes.run_here import Limits

    method = VerifyMethod(seeds=seeds, limits=Limits(seconds=seconds))
    if outcome.pair == "caffe2":
        if missing := unavailable_reason("caffe2"):
            outcome.error = missing
            return False
        report = convert.convert(folder / "model.keras", "caffe2", folder / "c2", verify=True, method=method)
    elif outcome.pair == "back":
        there, back = folder / "there.onnx", folder / "back"
        convert.convert(folder / "model.keras", "onnx", there, verify=False)
        convert.convert(there, "tf", back, verify=False)
        report = convert.verify(folder / "model.keras", back, method=method)
    else:
        source = folder / ("model.keras" if outcome.pair == "onnx" else "model.savedmodel")
        target = folder / f"{outcome.pair}.onnx"
        report = convert.convert(source, "onnx", target, verify=True, method=method)
        outcome.nodes, outcome.transposes, outcome.moved = _looked_at(target)
        assert outcome.moved > SENSITIVE, f"another input moves the outputs by {outcome.moved} of their size only"
    verdict = report.verdict
    assert verdict is not None
    outcome.ratio = round(max(row.error / row.floor if row.floor else 0.0 for row in verdict.outputs), 2)
    outcome.twin = max(row.twin or 0.0 for row in verdict.outputs)
    assert verdict.status == "PASS", f"{verdict.status}: {verdict.reason}"
    assert verdict.reference == "the source in float64", f"the reference was {verdict.reference}"
    return True


def _looked_at(path: Path) -> tuple[int, int, float]:
    """Return nodes and transposes of an ONNX file, and the relative change of its output with another image."""
    import onnx
    import onnxruntime

    types = [n.op_type for n in onnx.load(path, load_external_data=False).graph.node]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    pictures = np.random.default_rng(3).standard_normal((2, *given.shape[1:])).astype(np.float32)
    (first,), (second,) = (session.run(None, {given.name: p}) for p in (pictures[:1], pictures[1:]))
    size = np.sqrt(np.mean(np.square(first, dtype=np.float64)))
    moved = np.sqrt(np.mean(np.square(first.astype(np.float64) - second))) / size
    return len(types), types.count("Transpose"), round(float(moved), 4)


def _theirs(python: str, folder: Path, seconds: int) -> tuple[int, int]:
    command = [python, "-c", THEIRS, str(folder / "model.savedmodel")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        return -1, -1  # the load fails
    nodes, transposes = json.loads(done.stdout.splitlines()[-1])
    return nodes, transposes


# -- over all of them -------------------------------------------------------------------------------------------------


def outcomes(
    names: Sequence[str], pairs: Sequence[str] = PAIRS, *, seconds: int = 900, seeds: int = 2, gibibytes: int = 16,
    tf2onnx: str = "",
) -> Iterator[Outcome]:  # fmt: skip
    """Yield the outcomes of each network, which has `seconds` for all its pairs together."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    for name in names:
        command = [sys.executable, __file__, "--one", name, "--pairs", *pairs, "--seeds", str(seeds)]
        command += ["--seconds", str(seconds), "--tf2onnx", tf2onnx]
        limit = gibibytes << 30
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, env=environment,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),  # noqa: B023
            )  # fmt: skip
            said, why = done.stdout, f"the process ended with {done.returncode}: {done.stderr[-300:]}"
        except subprocess.TimeoutExpired as late:
            said, why = (late.stdout or b"").decode(), f"out of time after {seconds} s"
        lines = [line for line in said.splitlines() if line.startswith("{")]
        yield from (Outcome(**json.loads(line)) for line in lines)
        yield from (Outcome(name, NAMES[name], pair, error=why) for pair in pairs[len(lines) :])


def summary(found: Sequence[Outcome]) -> str:
    """Return a row for each network, then what did not pass, with its reason."""
    pairs = list(dict.fromkeys(o.pair for o in found))
    lines = [
        f"{'':20}" + "".join(f"{p:>10}" for p in pairs) + f"{'nodes':>8}{'(theirs)':>9}{'transp.':>8}{'(theirs)':>9}"
    ]
    for name in dict.fromkeys(o.name for o in found):
        of: dict[str, Any] = {o.pair: o for o in found if o.name == name}
        counted = of.get("saved") or of.get("onnx")
        row = f"{name:20}" + "".join(f"{of[p].outcome:>10}" if p in of else f"{'':10}" for p in pairs)
        if counted is not None:
            row += f"{counted.nodes:8}{counted.theirs_nodes:9}{counted.transposes:8}{counted.theirs_transposes:9}"
        lines.append(row)
    lines += [f"{o.outcome}: {o.name} {o.pair}: {o.error}" for o in found if o.outcome != PASS]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="networks by name; by default all of them")
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=PAIRS)
    parser.add_argument("--seconds", type=int, default=900, help="for one network, all its pairs together")
    parser.add_argument("--seeds", type=int, default=2, help="sets of inputs to verify with")
    parser.add_argument("--tf2onnx", metavar="PYTHON", default="")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        work(options.one, options.pairs, options.seeds, options.seconds, options.tf2onnx)
        return 0
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"there is no network {unknown[0]}")
    found = []
    chosen = options.names or list(NAMES)
    for row in outcomes(chosen, options.pairs, seconds=options.seconds, seeds=options.seeds, tf2onnx=options.tf2onnx):
        print(json.dumps(vars(row), ensure_ascii=False), flush=True)
        found.append(row)
    print(summary(found), file=sys.stderr)
    return int(any(o.outcome not in (PASS, GAP, SKIPPED) for o in found))


if __name__ == "__main__":
    sys.exit(main())
