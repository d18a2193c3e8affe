"""Run artefacts through their users' API, instead of the project's runners, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np

Arrays = dict[str, np.ndarray]
Feeds = Sequence[Mapping[str, np.ndarray]]

SUFFIXES = {
    "onnx": "onnx",
    "tf": "savedmodel",
    "tf-frozen": "pb",
    "keras": "keras",
    "tflite": "tflite",
    "caffe2": "caffe2",
    "torch": "pt2",
}
"""The suffix of an artefact of each format."""


def run_target(form: str, path: Path, feeds: Feeds) -> list[Arrays]:
    """Run the artefact of format `form` at `path`; return outputs by name for each dict of inputs by name.

    Names are those of the artefact, which are the source's if these are legal everywhere. Raises the framework's own
    exceptions.
    """
    return _RUN[form](path, feeds)


def assert_close(
    expected: Mapping[str, np.ndarray],
    got: Mapping[str, np.ndarray],
    exact: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Assert equal names, dtypes, shapes, integers, NaNs and infinities, and floats equal up to rounding errors.

    exact: the outputs of the source in float64. The root-mean-square distance of an output from it may be 8 times that
    of `expected`, or 64 roundings of its dtype. Without it, 64 roundings of the largest element are allowed.
    """
    assert set(got) == set(expected), f"outputs {sorted(got)}, expected {sorted(expected)}"
    for name, want in expected.items():
        found = np.asarray(got[name])
        assert found.dtype == want.dtype, f"{name}: {found.dtype}, expected {want.dtype}"
        assert found.shape == want.shape, f"{name}: shape {found.shape}, expected {want.shape}"
        if want.dtype.kind not in "fc" and want.dtype.name != "bfloat16":
            np.testing.assert_array_equal(found, want, err_msg=name)
            continue
        _assert_floats(name, want, found, None if exact is None else exact[name])


_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "complex64": 2.0**-24}


def _assert_floats(name: str, want: np.ndarray, found: np.ndarray, exact: np.ndarray | None) -> None:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    unit = _ROUNDOFF.get(want.dtype.name, 2.0**-53)
    a, b = want.astype(wide), found.astype(wide)
    regular = np.isfinite(a)
    np.testing.assert_array_equal(np.isfinite(b), regular, err_msg=f"{name}: NaN or infinity on one side only")
    np.testing.assert_array_equal(b[~regular], a[~regular], err_msg=f"{name}: NaN and infinity")
    a, b = a[regular], b[regular]
    if not a.size:
        return
    if exact is None:
        bound, error = 64 * unit * np.abs(a).max(), np.abs(b - a).max()
    else:
        true = exact.astype(wide)[regular]
        bound = max(8 * _rms(a - true), 64 * unit * _rms(true))
        error = _rms(b - true)
    assert error <= bound + np.finfo(np.float32).tiny, f"{name}: off by {error:.3g}, at most {bound:.3g} is rounding"


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.abs(array) ** 2)))


def _onnx(path: Path, feeds: Feeds) -> list[Arrays]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    # Fused quantized products saturate in 16 bits on processors with AVX2 only, which no specification says.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return [dict(zip(names, session.run(None, dict(feed)), strict=True)) for feed in feeds]


def _saved_model(path: Path, feeds: Feeds) -> list[Arrays]:
    import tensorflow as tf

    call = tf.saved_model.load(str(path)).signatures["serving_default"]
    return [{n: v.numpy() for n, v in call(**{n: tf.constant(a) for n, a in feed.items()}).items()} for feed in feeds]


def _frozen(path: Path, feeds: Feeds) -> list[Arrays]:
    """Run a frozen graph. Inputs are its placeholders, outputs its unread Identity nodes, in the file's order."""
    import tensorflow as tf

    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    read = {i.lstrip("^").partition(":")[0] for n in definition.node for i in n.input}
    outputs = [n.name for n in definition.node if n.name not in read and n.op not in ("Placeholder", "NoOp", "Assert")]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        found = [session.run([f"{n}:0" for n in outputs], {f"{n}:0": a for n, a in feed.items()}) for feed in feeds]
    return [dict(zip(outputs, values, strict=True)) for values in found]


def _keras(path: Path, feeds: Feeds) -> list[Arrays]:
    import keras

    model = keras.models.load_model(path)
    found = [model({n: keras.ops.convert_to_tensor(a) for n, a in feed.items()}) for feed in feeds]
    names = list(model.output_names)
    return [{n: keras.ops.convert_to_numpy(v) for n, v in _named(values, names).items()} for values in found]


def _named(values: object, names: Sequence[str]) -> Mapping[str, object]:
    if isinstance(values, Mapping):
        return values
    listed = list(values) if isinstance(values, (list, tuple)) else [values]
    return dict(zip(names, listed, strict=True))


def _tflite(path: Path, feeds: Feeds) -> list[Arrays]:
    """Run by the signature's names. For a tensor without elements, Python gets only dtype and shape."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    call = interpreter.get_signature_runner("serving_default")
    inputs = {n: d["index"] for n, d in call.get_input_details().items()}
    outputs = {n: d["index"] for n, d in call.get_output_details().items()}
    del call  # otherwise the tensor would keep the interpreter from running

    def run(feed: Mapping[str, np.ndarray]) -> Arrays:
        for name, array in feed.items():
            interpreter.resize_tensor_input(inputs[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in feed.items():
            interpreter.set_tensor(inputs[name], array)
        interpreter.invoke()
        told = {d["index"]: d for d in interpreter.get_output_details()}
        empty = {i: np.zeros(d["shape"], d["dtype"]) for i, d in told.items() if 0 in d["shape"]}
        return {n: empty[i] if i in empty else interpreter.get_tensor(i) for n, i in outputs.items()}

    return [run(feed) for feed in feeds]


def _caffe2(path: Path, feeds: Feeds) -> list[Arrays]:
    from convert.frontends.caffe2.runner.runner import Job, run_jobs

    found = run_jobs([Job(path, feed) for feed in feeds])
    results = []
    for outputs in found:
        if isinstance(outputs, Exception):
            raise outputs
        results.append(outputs)
    return results


def _program(path: Path, feeds: Feeds) -> list[Arrays]:
    """Run with positional inputs, in the order of the artefact's names."""
    import torch
    from convert.backends.pytorch.dtypes import tensor_from

    program = torch.export.load(path)
    names, call = program.graph_signature.user_inputs, program.module()

    def run(feed: Mapping[str, np.ndarray]) -> Arrays:
        with torch.no_grad():
            return {n: _array(y) for n, y in call(*(tensor_from(np.asarray(feed[str(n)])) for n in names)).items()}

    def _array(y: torch.Tensor) -> np.ndarray:
        return y.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if y.dtype == torch.bfloat16 else y.numpy()

    return [run(feed) for feed in feeds]


_RUN: dict[str, Callable[[Path, Feeds], list[Arrays]]] = {
    "onnx": _onnx,
    "tf": _saved_model,
    "tf-frozen": _frozen,
    "keras": _keras,
    "tflite": _tflite,
    "caffe2": _caffe2,
    "torch": _program,
}
