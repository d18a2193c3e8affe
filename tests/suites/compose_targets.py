"""Write a program's graph in every format and run the artefact as its users do, in this process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.errors import ConvertError, ResourceLimit, Unsupported
from convert.graph.metadata import DIMS_KEY, GUARDS_KEY
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from tests.suites import compose_onnx, compose_torch
from tests.suites.compose_judge import fault, is_blind
from tests.suites.compose_program import Feeds, Program
from tests.support.run_targets import run_target

TARGETS = ("onnx", "tf", "tf-frozen", "keras", "tflite", "caffe2", "torch")
_NOT_ONE = re.compile(r"Guard failed: \w+\.size\(\)\[\d+\] != 1")
_NO_MAPS = re.compile("Only zero batch or zero channel inputs are supported")
"""PyTorch's message for a convolution with height or width 0."""
KINDS = {"pytorch": compose_torch, "onnx": compose_onnx}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program in one format.

    status: "right", "refused" (by a message), "wrong", "error" (an exception that is no refusal), "crashed" (the
    process died), "invalid" (the source does not run), "runtime" (ONNX Runtime's optimizer is what is wrong) or
    "resized" (TensorFlow Lite is right in an interpreter of its own for each size, and wrong in one that is resized).
    """

    status: str
    text: str = ""


def read(program: Program) -> ir.Model:
    """Read a program as the shared graph."""
    source = plugin.source_for_object(KINDS[program.kind].source(program))
    specs = tuple(parse_input(s) for s in KINDS[program.kind].specs(program.inputs))
    return plugin.frontend_for(source).read(source, Options(inputs=specs), Report("compose"))


def outcomes(
    program: Program, targets: Sequence[str], stage: Callable[[str], None], runs: int = 3
) -> dict[str, Outcome]:
    """Return the outcome for each format. `stage` is called before each step, because a step may end the process."""
    stage("source")
    try:
        KINDS[program.kind].source(program)  # ONNX's checker may reject a model that runs operator by operator
        wanted = KINDS[program.kind].references(program, runs)
    except Exception as error:
        return {"source": Outcome("invalid", _line(error))}
    stage("read")
    try:
        model = read(program)
    except Exception as error:
        return {"read": _failure(error)}
    fits = [_fits(model, program, feed) for feed in program.feeds]
    blind = sum(is_blind(v[0], v[1], v[2 : 2 + runs]) for outputs in wanted for v in outputs.values())
    names = [str(v.name) for v in model.graph.outputs]
    if len(names) != len(program.outputs):
        return {"read": Outcome("wrong", f"{len(names)} outputs instead of {len(program.outputs)}")}
    found = {"contract": Outcome("right", f"{sum(fits)} of {len(fits)} feeds, {blind} blind outputs")}
    for target in targets:
        stage(target)
        found[target] = _outcome(program, model.clone(), target, fits, wanted, names, runs)
    return found


def _outcome(
    program: Program,
    model: ir.Model,
    target: str,
    fits: list[bool],
    wanted: list[dict[str, list[Any]]],
    names: list[str],
    runs: int,
) -> Outcome:
    inputs = [str(v.name) for v in model.graph.inputs]
    feeds = [
        {name: feed[spec.name] for name, spec in zip(inputs, program.inputs, strict=True)}
        for feed, fit in zip(program.feeds, fits, strict=True)
        if fit
    ]
    wanted = [w for w, fit in zip(wanted, fits, strict=True) if fit]
    nodes = list(model.graph.all_nodes())
    differences = plugin.differences(program.kind, plugin.formats()[target].kind)
    declared = [d for d in differences if d.empty and any(map(d.of, nodes))]
    with tempfile.TemporaryDirectory(prefix="compose-") as folder:
        report = Report("compose")
        try:
            path = _write(model, target, Path(folder), report)
        except Exception as error:
            return _failure(error)

        def ran(places: Sequence[int]) -> Outcome:
            chosen = [feeds[i] for i in places], [wanted[i] for i in places]
            return _ran(program, target, path, *chosen, names, runs)

        found = ran(range(len(feeds)))
        if target == "torch" and _NO_MAPS.search(found.text):
            full = [i for i, feed in enumerate(feeds) if all(array.size for array in feed.values())]
            rest = ran(full) if full else found
            return rest if 0 < len(full) < len(feeds) and rest.status != "right" else Outcome("refused", found.text)
        if found.status == "error" and any("from 2 on" in n for n in report.notes):
            alone = [ran([i]) for i in range(len(feeds))]
            found = next((o for o in alone if o.status != "right" and not _NOT_ONE.search(o.text)), found)
            return Outcome("refused", found.text) if _NOT_ONE.search(found.text) else found
        # The reference is perturbed by the errors that the backend declares for the operators of the graph.
        rough = {o: d.within for d in differences for o in d.operators if d.within}
        rough = {n.op_type: rough[n.op_type] for n in nodes if n.op_type in rough and not n.domain}
        if found.status == "wrong" and rough:
            every = KINDS[program.kind].references(program, runs, rough)
            wanted = [w for w, fit in zip(every, fits, strict=True) if fit]
            found = ran(range(len(feeds)))
        if not declared or found.status not in ("error", "wrong"):
            return found
        held = [h for h, fit in zip(_holds_elements(program), fits, strict=True) if fit]
        full = [i for i, h in enumerate(held) if h]
        if len(full) < len(feeds) and (not full or ran(full).status == "right"):
            return Outcome("refused", f"declared: {declared[0].reason}")
        return found


def _holds_elements(program: Program) -> list[bool]:
    """Return for each input set whether all values have elements; backends may declare differences otherwise."""
    values = [list(feed.values()) for feed in program.feeds]
    for step in program.steps:
        for found, value in zip(values, KINDS[program.kind].value_at(program, step.name), strict=True):
            found.append(value)
    return [all(v.size for v in found) for found in values]


def _ran(
    program: Program,
    target: str,
    path: Path,
    feeds: Feeds,
    wanted: list[dict[str, list[Any]]],
    names: list[str],
    runs: int,
) -> Outcome:
    try:
        results = RUN[target](path, feeds, names)
    except Exception as error:
        return Outcome("error", f"running: {_line(error)}")
    found = _judged(program, results, wanted, names, runs)
    if found and target == "onnx":
        plain = run_onnx(path, feeds, names, plain=True)
        if not _judged(program, plain, wanted, names, runs):
            return Outcome("runtime", f"only with ONNX Runtime's optimizations: {found}")
    if found and target == "tflite":
        fresh = [RUN[target](path, [feed], names)[0] for feed in feeds]
        if not _judged(program, fresh, wanted, names, runs):
            return Outcome("resized", found)
    return Outcome("wrong", found) if found else Outcome("right")


def _judged(program: Program, results: Feeds, wanted: list[dict[str, list[Any]]], names: list[str], runs: int) -> str:
    for place, (result, want) in enumerate(zip(results, wanted, strict=True)):
        for name, output in zip(names, program.outputs, strict=True):
            if name not in result:
                return f"no output {name}"
            exact, plain, *moved = want[output]
            if said := fault(np.asarray(result[name]), exact, plain, moved[:runs], moved[runs:]):
                return f"output {output}, feed {place}: {said}"
    return ""


def _fits(model: ir.Model, program: Program, feed: dict[str, np.ndarray]) -> bool:
    """Return whether the conditions that the frontend prints allow these sizes."""
    from convert.parity.inputs.size_guards import broken_guards

    sizes: dict[str, int] = {}
    for value, spec in zip(model.graph.inputs, program.inputs, strict=True):
        for dim, size in zip(value.shape or (), feed[spec.name].shape, strict=True):
            known = dim if isinstance(dim, int) else sizes.setdefault(str(dim.value), size) if dim.value else size
            if known != size:
                return False
    bounds = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
    for name, (low, high) in bounds.items():
        if name in sizes and not (low or 0) <= sizes[name] <= (high or sizes[name]):
            return False
    return not broken_guards(json.loads(model.metadata_props.get(GUARDS_KEY, "[]")), sizes)


def _failure(error: Exception) -> Outcome:
    """Return "refused" for messages that something is not supported, and "error" for others."""
    refused = isinstance(error, (Unsupported, ResourceLimit)) or (
        isinstance(error, ConvertError) and "defect" not in error.hint
    )
    if isinstance(error, ConvertError) and "TensorFlow's converter" in str(error):
        refused = False
    return Outcome("refused" if refused else "error", _line(error))


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


# -- writing and running ----------------------------------------------------------------------------------------------


def _write(model: ir.Model, target: str, folder: Path, report: Report) -> Path:
    form, path = plugin.formats()[target], folder / f"artefact{plugin.formats()[target].suffix}"
    if target == "tflite":
        # Run TensorFlow's converter in this process, because a new interpreter for each would take seconds.
        from tests.support.tensorflow_lite_helper import encode

        return encode(model, folder / "lite")
    plugin.backend_for(target).write(model, path, form.name, Options(), report)
    return path


def run_onnx(path: Path, feeds: Feeds, names: list[str], plain: bool = False) -> Feeds:
    """Run ONNX Runtime with its default options, or without optimization."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [dict(zip(names, session.run(names, feed), strict=True)) for feed in feeds]


def _run_saved_model(path: Path, feeds: Feeds, names: list[str]) -> Feeds:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]
    return [
        {k: v.numpy() for k, v in function(**{k: tf.constant(v) for k, v in feed.items()}).items()} for feed in feeds
    ]


def _run_frozen(path: Path, feeds: Feeds, names: list[str]) -> Feeds:
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            return [
                dict(
                    zip(
                        names,
                        session.run([f"{n}:0" for n in names], {f"{k}:0": v for k, v in feed.items()}),
                        strict=True,
                    )
                )
                for feed in feeds
            ]


def _run_keras(path: Path, feeds: Feeds, names: list[str]) -> Feeds:
    import keras
    import tensorflow as tf

    model = keras.saving.load_model(path)
    outputs = list(getattr(model, "output_names", names))

    def call(feed: dict[str, np.ndarray], how: Callable[[Any], Any]) -> dict[str, np.ndarray]:
        structure = [tf.constant(feed[i.name]) for i in model.inputs]
        found = how(structure[0] if len(structure) == 1 else structure)
        if isinstance(found, dict):
            return {k: np.asarray(v) for k, v in found.items()}
        flat = keras.tree.flatten(found)
        return {n: np.asarray(v) for n, v in zip(names, flat, strict=True)}

    del outputs
    function = tf.function(lambda x: model(x, training=False), autograph=False, reduce_retracing=True)
    eager = [call(feed, lambda x: model(x, training=False)) for feed in feeds[:1]]
    return eager + [call(feed, function) for feed in feeds[1:]]


def _run_lite(path: Path, feeds: Feeds, names: list[str]) -> Feeds:
    return run_target("tflite", path, feeds)


def _run_program(path: Path, feeds: Feeds, names: list[str]) -> Feeds:
    return run_target("torch", path, feeds)


class Caffe2:
    """A real Caffe2 in one long-running process."""

    def __init__(self) -> None:
        command = [os.environ["CONVERT_CAFFE2_PYTHON"], "-I", "-u", "-c", CAFFE2_LOOP]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.child = str(
            Path(sys.modules["convert.frontends.caffe2.runner.runner"].__file__ or "").with_name("child.py")
        )

    def run(self, path: Path, feed: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
        """Return the outputs of a net; raise Caffe2's error."""
        np.savez(folder / "in.npz", **{str(i): v for i, v in enumerate(feed.values())})
        job = {
            "net": str(path),
            "names": list(feed),
            "inputs": str(folder / "in.npz"),
            "output": str(folder / "out.npz"),
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([self.child, job]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            _caffe2.cache_clear()
            raise RuntimeError(f"Caffe2 died with {self.process.wait()}")
        told = json.loads(line)
        if "error" in told:
            raise RuntimeError(told["error"].split("\nframe #")[0])
        with np.load(folder / "out.npz") as arrays:
            return {name: arrays[str(i)] for i, name in enumerate(told["names"])}


CAFFE2_LOOP = """
import json, os, sys
out = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
module = None
for line in sys.stdin:
    place, job = json.loads(line)
    if module is None:
        module = {"__name__": "child"}
        exec(open(place).read(), module)
    try:
        told = {"names": module["run"](job)}
    except Exception as error:
        told = {"error": type(error).__name__ + ": " + str(error)[:800]}
    out.write(json.dumps(told) + "\\n"); out.flush()
"""


@cache
def _caffe2() -> Caffe2:
    return Caffe2()


def _run_caffe2(path: Path, feeds: Feeds, names: list[str]) -> Feeds:
    from convert.frontends.caffe2.runner import runner  # noqa: F401  (its child's file)

    with tempfile.TemporaryDirectory() as folder:
        return [_caffe2().run(path, feed, Path(folder)) for feed in feeds]


RUN: dict[str, Callable[[Path, Feeds, list[str]], Feeds]] = {
    "onnx": run_onnx, "tf": _run_saved_model, "tf-frozen": _run_frozen, "keras": _run_keras, "tflite": _run_lite,
    "caffe2": _run_caffe2, "torch": _run_program,
}  # fmt: skip
