"""TensorFlow graphs that write do no harm in the sandbox, with the list of operators switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from convert.frontends.tensorflow.runner.allowed import check_file
from convert.frontends.tensorflow.runner.keras_archive import check_config, with_keras_model

from convert.errors import UnsafeInput
from convert.processes.sandbox import CALLS, FILES, available_measures
from convert.request.options import Options
from convert.request.source import Source
from tests.support.confined import Hostile, run_trusted

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")


def _records(path: Path) -> None:
    data = tf.data.Dataset.from_tensors("x")._variant_tensor
    tf.raw_ops.DatasetToTFRecord(input_dataset=data, filename=str(path), compression_type="")


def _summary(path: Path) -> None:
    writer = tf.raw_ops.SummaryWriter(shared_name=path.name, container="")
    arguments = {"max_queue": 1, "flush_millis": 1, "filename_suffix": "x"}
    tf.raw_ops.CreateSummaryFileWriter(writer=writer, logdir=str(path), **arguments)
    tf.raw_ops.WriteScalarSummary(writer=writer, step=tf.constant(0, tf.int64), tag="x", value=1.0)
    tf.raw_ops.FlushSummaryWriter(writer=writer)


WRITING: dict[str, Callable[[Path], object]] = {
    "WriteFile": lambda path: tf.io.write_file(str(path), "x"),
    "PrintV2": lambda path: tf.print("x", output_stream=f"file://{path}"),
    "DatasetToTFRecord": _records,
    "CreateSummaryFileWriter": _summary,
    "SaveV2": lambda path: tf.raw_ops.SaveV2(
        prefix=str(path), tensor_names=["x"], shape_and_slices=[""], tensors=[tf.ones(2)]
    ),
}


def _debug(operator: str, address: str) -> Callable[[Any, Any], None]:
    """Put a debugging operator, which Python cannot create, before the node that computes the signature's output."""

    def edit(graph: Any, output: Any) -> None:
        node = graph.node.add(name="debug", op=operator, input=["x"])
        node.attr["T"].type = 1
        node.attr["tensor_name"].s = b"x:0"
        node.attr["debug_urls"].list.s.append(address.encode())
        output.input[0] = "debug"

    return edit


def save(path: Path, act: Callable[[], object], *, initializer: bool = False) -> Hostile:
    """Save a SavedModel that doubles its input, and acts when it is called or, by its initializer, when it is
    loaded.
    """
    if initializer:
        v1 = tf.compat.v1
        with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            x = v1.placeholder(tf.float32, [3], name="x")
            y = x * 2
            before = set(graph.get_operations())
            act()
            acts = [op for op in graph.get_operations() if op not in before]
            with v1.control_dependencies(acts):
                main = v1.no_op()
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder = v1.saved_model.Builder(str(path))
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=main)
            builder.save()
        return Hostile("savedmodel", path, "x", (3,))

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")], autograph=False)
    def inner(x: Any) -> Any:
        act()
        return x * 2

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")], autograph=False)
    def outer(x: Any) -> Any:
        return {"y": inner(x)}

    module = tf.Module()
    module.call = outer
    tf.saved_model.save(module, str(path), signatures=outer)
    return Hostile("savedmodel", path, "x", (3,))


def edited(plain: Path, path: Path, edit: Callable[[Any, Any], None]) -> Hostile:
    """Return a copy of a SavedModel with its graph changed; of a TensorFlow 1 model, so that a session runs the
    graph.
    """
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel.FromString((plain / "saved_model.pb").read_bytes())
    meta = saved.meta_graphs[0]
    output = meta.signature_def["serving_default"].outputs["y"].name.partition(":")[0]
    edit(meta.graph_def, next(n for n in meta.graph_def.node if n.name == output))
    (path / "variables").mkdir(parents=True)
    for file in (plain / "variables").iterdir():
        (path / "variables" / file.name).write_bytes(file.read_bytes())
    (path / "saved_model.pb").write_bytes(saved.SerializeToString())
    return Hostile("savedmodel", path, "x", (3,))


def make_files(folder: Path, canaries: Path) -> list[Hostile]:
    """Create a file for each way to write, when it is called and when it is loaded."""
    files = []
    for name, act in WRITING.items():
        for initializer in (False, True):
            place = f"{name}{int(initializer)}"
            files.append(save(folder / place, lambda a=act, p=place: a(canaries / p), initializer=initializer))

    plain = save(folder / "plain", lambda: tf.constant(1.0), initializer=True).path
    address = f"file://{canaries / 'DebugIdentity'}"
    files.append(edited(plain, folder / "DebugIdentity", _debug("DebugIdentity", address)))
    return files


@pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")
@pytest.mark.long  # TensorFlow is imported once more
def test_graphs_that_write_do_no_harm(tmp_path: Path) -> None:
    canaries = tmp_path / "canaries"
    canaries.mkdir()
    hostile = make_files(tmp_path / "files", canaries)
    for file in hostile:
        with pytest.raises(UnsafeInput):
            check_file(Source(file.kind, file.path), Options())
    told = run_trusted(tmp_path, hostile, sandbox=True)
    assert len(told) == 2 * len(hostile)
    assert not list(canaries.iterdir()), told


@pytest.mark.long
def test_the_same_graphs_write_without_the_sandbox(tmp_path: Path) -> None:
    canaries = tmp_path / "canaries"
    canaries.mkdir()
    told = run_trusted(tmp_path, make_files(tmp_path / "files", canaries), sandbox=False)
    written = {path.name.split(".")[0] for path in canaries.iterdir()}
    pruned = {"SaveV20"}  # a Save that nothing waits for does not run in a function, but it runs when a model is loaded
    assert written >= {f"{name}{i}" for name in WRITING for i in (0, 1)} - pruned | {"DebugIdentity"}, told


@pytest.mark.skipif(not {FILES, CALLS} <= set(available_measures()), reason="no Landlock or no seccomp here")
def test_keras_files_are_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    import keras

    lookup = keras.layers.StringLookup()
    lookup.adapt(["a", "b", "b"])  # this makes the words a separate file, which Keras unpacks
    model = keras.Sequential([keras.Input((1,), dtype="string"), lookup])
    model.save(tmp_path / "m.keras")

    def work(loaded: Any) -> Any:
        with pytest.raises(PermissionError):
            (tmp_path / "written").write_text("x")
        with pytest.raises(PermissionError):
            os.fork()
        return loaded.layers[-1].get_vocabulary()

    assert with_keras_model(tmp_path / "m.keras", work) == ["[UNK]", "b", "a"]
    tf.saved_model.save(tf.Module(), str(tmp_path / "saved"))  # by TensorFlow's threads that were started before
    assert with_keras_model(tmp_path / "m.keras", lambda _: (tmp_path / "trusted").touch(), trust=True) is None


@pytest.mark.parametrize("module", ["keras.models", "keras.layers"])
@pytest.mark.parametrize("name", ["load_model", "model_from_json", "save_model", "deserialize", "get"])
def test_functions_that_load_are_no_activations(module: str, name: str) -> None:
    function = {"class_name": "function", "module": module, "config": name, "registered_name": name}
    layer = {"class_name": "Activation", "module": "keras.layers", "config": {"activation": function}}
    with pytest.raises(UnsafeInput, match=f"{module}.{name}"):
        check_config({"class_name": "Sequential", "module": "keras", "config": {"layers": [layer]}}, "m.keras")


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("TFOpLambda", {"function": "math.add"}),
        ("SlicingOpLambda", {"function": "__operators__.getitem"}),
        ("TensorFlowOpLayer", {"node_def": '{"op": "Add"}'}),
        ("ThresholdedReLU", {"theta": 1.0}),
        ("CuDNNLSTM", {"units": 3}),
        ("LocallyConnected2D", {"filters": 3, "kernel_size": [2, 2]}),
    ],
)
def test_layers_that_are_replaced_come_from_keras_alone(name: str, config: dict[str, Any]) -> None:
    """A file that claims to be from Keras 3 is not translated, because Keras would import the module that it names."""
    own = {"module": None, "registered_name": name}
    others = [
        {"module": "antigravity"}, {"module": "keras.src.layersx"}, {"module": "keras.src.backend.torch"},
        {"registered_name": f"mine>{name}"},
    ]  # fmt: skip
    for changed in ({}, {"module": "keras.layers"}, {"module": "keras.src.layers.core.tf_op_layer"}, *others):
        layer = {"class_name": name, "config": config, **own, **changed}
        model = {"class_name": "Sequential", "module": "keras", "config": {"layers": [layer]}}
        with pytest.raises(UnsafeInput, match=name) if changed in others else nullcontext():
            check_config(model, "m.keras")


READING = """
import sys, time
from contextlib import suppress
from pathlib import Path
from convert.processes.model_reading import read_model
from convert.request.options import Options
from convert.outcome.report import Report
from convert.request.source import Source

def filters():
    found = set()
    for status in Path("/proc/self/task").glob("*/status"):
        with suppress(OSError):  # a thread that has just ended
            found |= {line for line in status.read_text().splitlines() if line.startswith("Seccomp")}
    return found

read_model(Source("keras", Path(sys.argv[1])), Options(), Report("test"))
end = time.monotonic() + 10
while len(filters()) > 2 and time.monotonic() < end:  # the thread that has read the file is ending
    time.sleep(0.01)
assert len(filters()) == 2, filters()  # the mode, and the number of filters: of all threads the same
"""


def test_no_thread_of_the_program_is_confined_for_good(tmp_path: Path) -> None:
    """TensorFlow's threads, which a new program does not have yet, work for everything that it does later."""
    import keras

    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(tmp_path / "m.keras")
    command = [sys.executable, "-c", READING, str(tmp_path / "m.keras")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
