"""Compute the outputs of a mutated file in its own framework, to judge a silent conversion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Feed = dict[str, np.ndarray]


def feed_of(session: Any) -> Feed:
    """Return numbers for each input of an onnxruntime session; 2 for a dynamic dim."""
    rng = np.random.default_rng(3)
    feed = {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in value.shape]
        kind = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(int64)": "i8", "tensor(int32)": "i4"}[value.type]
        feed[value.name] = rng.normal(size=shape).astype(kind)
    return feed


def session_of(path: Path) -> Any:
    """Return onnxruntime's session for the converted file."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _torch_outputs(call: Callable[..., Any], feed: Feed) -> list[np.ndarray]:
    import torch

    with torch.no_grad():
        found = call(*[torch.from_numpy(v) for v in feed.values()])
    return [np.asarray(v) for v in (found if isinstance(found, tuple | list) else [found])]


def _state_network(path: Path) -> Any:
    """Return the network of the factory with the weights of a file."""
    import safetensors.torch
    import torch

    from tests.suites.fuzzing.seeds import torch_network

    network = torch_network()
    safe = path.suffix == ".safetensors"
    network.load_state_dict(safetensors.torch.load_file(path) if safe else torch.load(path, weights_only=True))
    return network


def _state(path: Path, feed: Feed) -> list[np.ndarray]:
    return _torch_outputs(_state_network(path), feed)


def _state_in_float64(path: Path, feed: Feed) -> list[np.ndarray]:
    wide = {name: v.astype("f8") if v.dtype == np.float32 else v for name, v in feed.items()}
    return _torch_outputs(_state_network(path).double(), wide)


def _torchscript(path: Path, feed: Feed) -> list[np.ndarray]:
    import torch

    return _torch_outputs(torch.jit.load(str(path)), feed)


def _exported(path: Path, feed: Feed) -> list[np.ndarray]:
    import torch

    return _torch_outputs(torch.export.load(path).module(), feed)


def _onnx(path: Path, feed: Feed) -> list[np.ndarray]:
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [np.asarray(v) for v in session.run(None, feed)]


def _savedmodel(path: Path, feed: Feed) -> list[np.ndarray]:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    found = loaded.signatures["serving_default"](**{name: tf.constant(v) for name, v in feed.items()})
    return [v.numpy() for v in found.values()]


def _frozen(path: Path, feed: Feed) -> list[np.ndarray]:
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    read = {name.split(":")[0] for node in graph_def.node for name in node.input}
    last = [node.name for node in graph_def.node if node.name not in read and node.op not in ("NoOp", "Const")]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            fed = {f"{name}:0": v for name, v in feed.items()}
            return [np.asarray(v) for v in session.run([f"{name}:0" for name in last], fed)]


def _keras(path: Path, feed: Feed) -> list[np.ndarray]:
    import keras

    model = keras.models.load_model(path, compile=False, safe_mode=True)
    found = model(list(feed.values()) if len(feed) > 1 else next(iter(feed.values())))
    return [np.asarray(v) for v in (found if isinstance(found, tuple | list) else [found])]


def _lite(path: Path, feed: Feed) -> list[np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    for detail, value in zip(interpreter.get_input_details(), feed.values(), strict=True):
        interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), feed.values(), strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]


JUDGES: dict[str, Callable[[Path, Feed], list[np.ndarray]]] = {
    "pt": _state,
    "torchscript": _torchscript,
    "pt2": _exported,
    "safetensors": _state,
    "onnx": _onnx,
    "savedmodel": _savedmodel,
    "frozen": _frozen,
    "keras": _keras,
    "h5": _keras,
    "tflite": _lite,
}
"""Functions that run an artefact, by format. Caffe2 is missing, because it needs another Python."""
IN_FLOAT64 = {"pt": _state_in_float64, "safetensors": _state_in_float64}
"""The same in float64, for the formats whose framework can widen the model."""


def judged(form: str, source: Path, target: Path) -> tuple[str, str]:
    """Compare the target of a mutated source with the framework; return a word and the difference.

    The words are `agrees`, `differs`, `refused by the framework`, `fails alike` (neither runs), `does not run` (only
    the framework runs) and `not judged`.
    """
    if form not in JUDGES:
        return "not judged", ""
    feed: Feed = {}
    try:
        session = session_of(target)
        feed = feed_of(session)
        got = [np.asarray(v) for v in session.run(None, feed)]
    except Exception as error:
        told = " ".join(str(error).split())[:200]
        try:
            JUDGES[form](source, feed)
        except Exception as other:
            return "fails alike", f"{told} | {type(other).__name__}: {' '.join(str(other).split())[:200]}"
        return "does not run", told
    try:
        want = JUDGES[form](source, feed)
    except Exception as error:
        return "refused by the framework", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if [v.shape for v in got] != [v.shape for v in want]:
        return "differs", f"shapes {[v.shape for v in got]}, not {[v.shape for v in want]}"
    if (found := difference(got, want, [])) and form in IN_FLOAT64:
        found = difference(got, want, IN_FLOAT64[form](source, feed))
    return ("differs", found) if found else ("agrees", "")


def difference(got: list[np.ndarray], want: list[np.ndarray], wide: list[np.ndarray]) -> str:
    """Return the first output that differs, or "".

    `wide` are the framework's outputs in float64, if they are known. An element of them that float32 cannot hold may be
    inf on one side and NaN on the other, depending on the order of the sum that overflows.
    """
    for index, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        same = np.isclose(mine, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
        if wide:
            too_large = np.abs(wide[index]) > np.finfo(np.float32).max
            same |= too_large & ~np.isfinite(mine) & ~np.isfinite(theirs)
        if not same.all():
            return f"{mine.ravel()[:4]} instead of {theirs.ravel()[:4]}"
    return ""
