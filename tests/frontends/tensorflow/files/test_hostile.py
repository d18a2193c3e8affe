"""TensorFlow and Keras files that try to run code, read other files, or use up all memory are refused with a reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.runner import as_used, hdf5_check, runner

from convert import limits
from convert.errors import BadInput, UnsafeInput, Unsupported
from convert.outcome.report import Report
from convert.processes import parser_check
from convert.request.options import Options
from convert.request.source import Source

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")
import h5py  # noqa: E402
import keras  # noqa: E402  (after the choice of its backend)

FIXTURES = Path(__file__).parents[4] / "fixtures"


def read(kind: str, path: Path) -> Any:
    return frontend.read(Source(kind, path), Options(), Report("convert"))


def _saved(tmp_path: Path, *layers: Any) -> Path:
    keras.Sequential([keras.Input((4,)), *layers]).save(tmp_path / "m.keras")
    return tmp_path / "m.keras"


def _edited(path: Path, edit: Any) -> Path:
    """Return a copy of a .keras file with its configuration changed."""
    target = path.with_name("edited.keras")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                config = json.loads(data)
                edit(config)
                data = json.dumps(config).encode()
            new.writestr(name, data)
    return target


def test_lambda_layers_are_listed(tmp_path: Path) -> None:
    path = _saved(tmp_path, keras.layers.Lambda(lambda x: x + 1), keras.layers.Dense(2))
    with pytest.raises(UnsafeInput, match=r"keras\.layers\.Lambda"):
        read("keras", path)
    for call in (runner.run_as_used, lambda s, f, o: runner.run(s, f, precision="float64", options=o)):
        with pytest.raises(UnsafeInput, match=r"keras\.layers\.Lambda"):  # the target is refused too
            call(Source("keras", path), [], Options())


def test_a_saved_model_that_tensorflow_cannot_parse_is_bad_input(tmp_path: Path) -> None:
    path = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", tmp_path / "m"))
    (path / "saved_model.pb").write_bytes((path / "saved_model.pb").read_bytes()[:-1])
    with pytest.raises(BadInput, match=r"loaded by tf\.saved_model\.load: Cannot parse file"):
        as_used.run_each_way(Source("savedmodel", path), [], Options())


def test_custom_classes_are_listed(tmp_path: Path) -> None:
    @keras.saving.register_keras_serializable(package="mine")
    class Odd(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(UnsafeInput, match="mine>Odd"):
        read("keras", _saved(tmp_path, Odd(), keras.layers.Dense(2)))


@pytest.mark.parametrize(
    "entry",
    [
        {"module": "os", "class_name": "system", "config": "true", "registered_name": None},
        {"module": "builtins", "class_name": "function", "config": "eval", "registered_name": "function"},
        {"module": "keras.utils", "class_name": "get_file", "config": {"origin": "x"}, "registered_name": None},
        {"module": "keras.src.utils", "class_name": "get_file", "config": {}, "registered_name": None},
        {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "x"}, "registered_name": None},
        {"module": "keras.layersx", "class_name": "Dense", "config": {}, "registered_name": None},
        {"module": "keras", "class_name": "Input", "config": {}, "registered_name": None},
        {"class_name": "__lambda__", "config": {"value": "x"}},
        {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}},
        {
            "module": "keras.src.layers.preprocessing.index_lookup",
            "class_name": "IndexLookup",
            "config": {"vocabulary": "/etc/passwd"},
        },
        {"module": "os", "class_name": "__typespec__", "spec_name": "PathLike", "config": []},
        {
            "module": "keras.layers",
            "class_name": "Dense",
            "config": {"units": 2},
            "compile_config": {"loss": {"module": "os", "class_name": "system", "config": "true"}},
        },
    ],
)
def test_configurations_that_name_code_are_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    path = _edited(_saved(tmp_path, keras.layers.Dense(2)), lambda config: config["config"]["layers"].append(entry))
    name = "os.system" if "compile_config" in entry else str(entry["class_name"])
    with pytest.raises(UnsafeInput, match=name):
        read("keras", path)


def test_a_model_in_a_model_may_be_compiled(tmp_path: Path) -> None:
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    inner.compile("adam", keras.losses.MeanSquaredError(), metrics=[keras.metrics.MeanAbsoluteError()])
    read("keras", _saved(tmp_path, inner))


def test_archives_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    path = shutil.copy(FIXTURES / "mnist_cnn.keras", tmp_path / "m.keras")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../elsewhere", "x")
    with pytest.raises(UnsafeInput, match="outside of the archive"):
        read("keras", Path(path))


def test_external_links_in_hdf5_are_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file["model_weights"]["more"] = h5py.ExternalLink("other.h5", "/")
    with pytest.raises(UnsafeInput, match="links to other data"):
        read("keras-h5", tmp_path / "m.h5")


def test_data_outside_of_hdf5_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.save(tmp_path / "m.h5")
    (tmp_path / "raw").write_bytes(bytes(16))
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file["model_weights"].create_dataset("far", (4,), "f4", external=[(str(tmp_path / "raw"), 0, 16)])
    with pytest.raises(UnsafeInput, match="in other files"):
        read("keras-h5", tmp_path / "m.h5")


def test_weights_without_a_model_are_told(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["x"] = np.zeros(3)
    with pytest.raises(BadInput, match="weights only"):
        read("keras-h5", tmp_path / "w.h5")


# -- graphs -------------------------------------------------------------------------------------------------------


def _write(tmp_path: Path, graph: Any) -> Path:
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    return tmp_path / "g.pb"


def _graph(*nodes: tuple[str, str, list[str]]) -> Any:
    graph = tf.compat.v1.GraphDef()
    for name, operator, inputs in nodes:
        node = graph.node.add(name=name, op=operator, input=inputs)
        if operator == "Placeholder":
            node.attr["dtype"].type = 1
            node.attr["shape"].shape.dim.add(size=3)
    return graph


def test_operators_that_touch_files_or_python_are_all_listed(tmp_path: Path) -> None:
    graph = _graph(("x", "Placeholder", []), ("r", "ReadFile", ["x"]), ("p", "PyFunc", ["r"]), ("y", "Neg", ["p"]))
    with pytest.raises(UnsafeInput) as error:
        read("frozen-graph", _write(tmp_path, graph))
    assert "ReadFile" in error.value.message
    assert "PyFunc" in error.value.message


def test_side_effects_behind_control_edges_are_found(tmp_path: Path) -> None:
    graph = _graph(("x", "Placeholder", []), ("w", "WriteFile", ["x", "x"]), ("y", "Neg", ["x", "^w"]))
    with pytest.raises(UnsafeInput, match="WriteFile"):
        read("frozen-graph", _write(tmp_path, graph))


def _with_functions(tmp_path: Path, calls: dict[str, list[str]]) -> Path:
    """Return a graph that calls `f0`; each function calls others, one after the other."""
    graph = _graph(("x", "Placeholder", []), ("y", "PartitionedCall", ["x"]))
    graph.node[1].attr["f"].func.name = "f0"
    for name, callees in calls.items():
        function = graph.library.function.add()
        function.signature.name = name
        function.signature.input_arg.add(name="x", type=1)
        function.signature.output_arg.add(name="y", type=1)
        last = "x"
        for i, callee in enumerate(callees):
            node = function.node_def.add(name=f"n{i}", op="PartitionedCall", input=[last])
            node.attr["f"].func.name = callee
            last = f"n{i}:output:0"
        function.ret["y"] = last
    return _write(tmp_path, graph)


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="calls itself"):
        read("frozen-graph", _with_functions(tmp_path, {"f0": ["f1"], "f1": ["f0"]}))


def test_expansion_bombs_are_counted_first(tmp_path: Path) -> None:
    bomb = {f"f{i}": [f"f{i + 1}"] * 10 for i in range(12)} | {"f12": []}
    with pytest.raises(BadInput, match="expands to more than"):
        read("frozen-graph", _with_functions(tmp_path, bomb))


def test_missing_functions_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a function 'f1' that it does not hold"):
        read("frozen-graph", _with_functions(tmp_path, {"f0": ["f1"]}))


def test_cycles_are_refused(tmp_path: Path) -> None:
    graph = _graph(("x", "Placeholder", []), ("a", "Add", ["x", "b"]), ("b", "Neg", ["a"]), ("y", "Neg", ["a"]))
    with pytest.raises(BadInput, match="depends on itself"):
        read("frozen-graph", _write(tmp_path, graph))


def test_references_to_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'gone'"):
        read("frozen-graph", _write(tmp_path, _graph(("x", "Placeholder", []), ("y", "Add", ["x", "gone"]))))
    with pytest.raises(BadInput, match="no output 5"):
        read("frozen-graph", _write(tmp_path, _graph(("x", "Placeholder", []), ("y", "Neg", ["x:5"]))))


def test_sizes_are_checked_before_memory_is_taken(tmp_path: Path) -> None:
    graph = _graph(("x", "Placeholder", []), ("c", "Const", []), ("y", "Add", ["x", "c"]))
    tensor = graph.node[1].attr["value"].tensor
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=1 << 50)
    tensor.tensor_content = bytes(8)
    with pytest.raises(BadInput, match="8 are there"):
        read("frozen-graph", _write(tmp_path, graph))


def test_a_weight_of_other_dims_than_the_operator_takes_is_refused(tmp_path: Path) -> None:
    graph = _graph(("x", "Placeholder", []), ("c", "Const", []), ("y", "Conv2D", ["x", "c"]))
    tensor, attributes = graph.node[1].attr["value"].tensor, graph.node[2].attr
    tensor.dtype = graph.node[1].attr["dtype"].type = graph.node[0].attr["dtype"].type = attributes["T"].type = 1
    tensor.float_val.append(1.0)
    for size in (3, 3):
        tensor.tensor_shape.dim.add(size=size)
    attributes["padding"].s = b"SAME"
    attributes["strides"].list.i.extend([1, 1, 1, 1])
    with pytest.raises(Unsupported, match="a value of 2 dims, where the operator takes 4"):
        read("frozen-graph", _write(tmp_path, graph))


@pytest.mark.parametrize("keep", [0, 20, 0.5])
@pytest.mark.parametrize(
    "file", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
def test_truncated_saved_models(tmp_path: Path, file: str, keep: float) -> None:
    folder = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", tmp_path / "m"))
    data = (folder / file).read_bytes()
    (folder / file).write_bytes(data[: int(keep * len(data)) if keep < 1 else int(keep)])
    with pytest.raises(BadInput):
        read("savedmodel", folder)


@pytest.mark.parametrize("file", ["variables.index", "variables.data-00000-of-00001"])
def test_one_bit_of_a_checkpoint(tmp_path: Path, file: str) -> None:
    """TensorFlow compares checksums as well, and refuses the file."""
    folder = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", tmp_path / "m"))
    data = bytearray((folder / "variables" / file).read_bytes())
    data[3 * len(data) // 4] ^= 4
    (folder / "variables" / file).write_bytes(data)
    with pytest.raises((tf.errors.OpError, UnicodeDecodeError, ValueError)):
        tf.saved_model.load(str(folder))
    with pytest.raises(BadInput, match="damaged"):
        read("savedmodel", folder)


def test_damaged_keras_files(tmp_path: Path) -> None:
    """Damage in the configuration, and in the weights."""
    path = _saved(tmp_path, keras.layers.Dense(64))
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        starts = {entry.filename: entry.header_offset for entry in archive.infolist()}
        sizes = {entry.filename: entry.compress_size for entry in archive.infolist()}
    for name in ("config.json", "model.weights.h5"):
        damaged = bytearray(data)
        damaged[starts[name] + 30 + len(name) + sizes[name] // 2] ^= 4
        (tmp_path / "damaged.keras").write_bytes(damaged)
        with pytest.raises(BadInput, match=r"corrupt|damaged"):
            read("keras", tmp_path / "damaged.keras")


@pytest.mark.slow
def test_hdf5_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe imitates a damaged file on which the library loops."""
    monkeypatch.setattr(limits, "HDF5_SECONDS", 3.0)
    monkeypatch.setattr(parser_check, "_BUSY", 1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="did not reach the end after 3 s"):
        hdf5_check.check(tmp_path / "pipe")
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]).save(tmp_path / "m.h5")
    monkeypatch.undo()
    hdf5_check.check(tmp_path / "m.h5")
    code = "from convert.processes.parser_check import begin_check\nbegin_check()\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", code, str(os.getpid()), "1"], check=False).returncode < 0


def test_saved_model_without_variables_or_graph(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURES / "mnist_cnn.savedmodel", tmp_path / "m"))
    shutil.rmtree(folder / "variables")
    with pytest.raises(BadInput, match=r"variables\.index"):
        read("savedmodel", folder)
    (folder / "saved_model.pb").unlink()
    with pytest.raises(BadInput, match=r"no saved_model\.pb"):
        read("savedmodel", folder)
