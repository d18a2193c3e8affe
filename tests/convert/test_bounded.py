"""Small files that cause endless work or memory use are ended soon, with one paragraph and the right exit code.

Each is read by a process of its own with little memory. A file that the limits do not stop is killed there, and fails
the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from convert import activity, api
from convert.errors import ResourceLimit
from convert.graph.shape_inference import infer_proto
from convert.parity.method import VerifyMethod
from convert.processes.run_here import Limits
from tests.convert.processes.test_sandbox import endless_model
from tests.support import hostile
from tests.support.marks import slow

pytestmark = pytest.mark.not_core

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
GROWN = 1 << 60


def run(*words: str | Path, memory: str = "2GB") -> tuple[int, list[str]]:
    """Return the exit code, and the lines of stderr that are no progress."""
    command = [sys.executable, "-m", "convert", *map(str, words), "--memory", memory]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, [line for line in done.stderr.splitlines() if not line.endswith(" …")]


def refused(*words: str | Path, code: int, told: str) -> None:
    found, lines = run(*words)
    assert found == code, lines
    assert len([line for line in lines if line.startswith("error: ")]) == 1
    assert told in lines[0]
    assert "--timeout" not in lines[-1], "it was counted, not ended"


# -- ONNX -------------------------------------------------------------------------------------------------------------


def constant(name: str, content: Any) -> TensorProto:
    return numpy_helper.from_array(np.asarray(content), name)


def graph(
    nodes: Sequence[onnx.NodeProto], out: int = 1, weights: Sequence[TensorProto] = (), into: int = 1
) -> onnx.ModelProto:
    """Return a model of `nodes` from x of one element to y of unknown shape."""
    ends = [helper.make_tensor_value_info("x", into, [1])], [helper.make_tensor_value_info("y", out, None)]
    whole = helper.make_graph(nodes, "g", *ends, list(weights))
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def doubled(first: str) -> list[onnx.NodeProto]:
    names = [first, *(f"c{i}" for i in range(59)), "y"]
    return [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]


def made(operator: str, *weights: Any, **attributes: Any) -> onnx.ModelProto:
    """Return x plus the sum of an operator's results on constants."""
    names = [f"w{i}" for i in range(len(weights))]
    nodes = [
        helper.make_node(operator, names, ["m"], **attributes),
        helper.make_node("ReduceMax", ["m"], ["r"], keepdims=0),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    tensors = [constant(n, w) for n, w in zip(names, weights, strict=True)]
    kind = helper.np_dtype_to_tensor_dtype(np.asarray(weights[0]).dtype)
    return graph(nodes, kind, tensors, kind)


GROWING: dict[str, Callable[[], onnx.ModelProto]] = {
    "Concat of an input": lambda: graph(doubled("x")),
    "Concat of a constant": lambda: graph(doubled("one"), 7, [constant("one", np.array([1]))]),
    "Concat of a shape": lambda: graph([helper.make_node("Shape", ["x"], ["s"]), *doubled("s")], 7),
    "Range": lambda: made("Range", np.int64(0), np.int64(GROWN), np.int64(1)),
    "Tile": lambda: made("Tile", np.ones(1, np.int64), np.array([GROWN])),
    "Expand": lambda: made("Expand", np.ones(1, np.int64), np.array([GROWN])),
    "OneHot": lambda: made("OneHot", np.ones(1, np.int64), np.int64(GROWN), np.array([0, 1])),
    "an outer product": lambda: made("MatMul", np.ones((8000, 1), np.float32), np.ones((1, 8000), np.float32)),
    "sizes whose product wraps": lambda: made("Expand", np.ones(1, np.int64), np.array([1 << 32, 1 << 32])),
}


@pytest.mark.parametrize("name", GROWING)
def test_tensors_that_a_graph_makes_from_nothing(name: str, tmp_path: Path) -> None:
    """Tensors that a graph creates are converted unchanged: the runtime needs the memory, the conversion does not."""
    onnx.save(GROWING[name](), tmp_path / "m.onnx")
    before = peak_memory()
    api.convert(tmp_path / "m.onnx", "onnx", tmp_path / "out.onnx", verify=False)
    assert peak_memory() - before < 500e6


def peak_memory() -> float:
    """Return the peak memory of this process in bytes since the counter was cleared."""
    status = Path("/proc/self/status").read_text()
    now = float(status.split("VmHWM:")[1].split()[0]) * 1024
    Path("/proc/self/clear_refs").write_text("5")
    return now


def test_inference_follows_shapes_where_vectors_are_short() -> None:
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Expand", ["x", "s"], ["y"])]
    found = infer_proto(graph(nodes)).graph.output[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in found] == [1]


def test_a_node_of_very_many_outputs(tmp_path: Path) -> None:
    names = [f"y{i}" for i in range(100_000)]
    onnx.save(graph([helper.make_node("Split", ["x"], ["y", *names], num_outputs=len(names) + 1)]), tmp_path / "m.onnx")
    refused("inspect", tmp_path / "m.onnx", code=6, told="Split: 100,001 outputs of one operator")


def test_weights_in_a_file_of_holes(tmp_path: Path) -> None:
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 40)
    weight = TensorProto(name="w", data_type=1, dims=[1 << 38], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    model = graph([helper.make_node("Add", ["x", "w"], ["y"])], weights=[weight])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    words = (tmp_path / "m.onnx", "--to", "onnx", "-o", tmp_path / "out.onnx", "--no-verify")
    refused(*words, code=5, told="0 bytes of it were ever written")


@pytest.mark.parametrize("name", ["mnist_cnn_frozen.pb", "mnist_cnn.onnx"])
def test_a_model_file_with_a_hole_at_its_end(name: str, tmp_path: Path) -> None:
    shutil.copy(FIXTURES / name, tmp_path / name)
    os.truncate(tmp_path / name, 1 << 40)
    with pytest.raises(api.ConvertError, match="were ever written"):
        api.inspect(tmp_path / name)


@pytest.mark.long
def test_an_endless_loop_ends_with_the_time_of_the_command(tmp_path: Path) -> None:
    path = endless_model(tmp_path / "m.onnx")
    code, lines = run("verify", path, path, "--timeout", "8")
    assert code == 6
    assert lines[0].startswith("error: verifying")
    assert lines[0].endswith("was not finished after 8 s")


@pytest.mark.slow
def test_an_endless_loop_ends_with_the_time_of_a_run(tmp_path: Path) -> None:
    path = endless_model(tmp_path / "m.onnx")
    with pytest.raises(ResourceLimit, match=r"running .* took longer than 1 s"):
        api.verify(path, path, method=VerifyMethod(limits=Limits(seconds=1)))


def test_the_executor_looks_at_the_clock(tmp_path: Path) -> None:
    from convert.reference.onnx_file import evaluate_file

    path = endless_model(tmp_path / "m.onnx")
    with (
        activity.doing("running it"),
        activity.limited_time(0.3),
        pytest.raises(ResourceLimit, match=r"running it took longer than 0\.3 s"),
    ):
        evaluate_file(path, [{"x": np.ones(2, np.float32)}])


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def nested_tuples(count: int, *, twice: bool) -> bytes:
    return hostile.EMPTY_TUPLE + (b"2\x86" if twice else hostile.TUPLE1) * count


KEYS = {
    "a key": hostile.EMPTY_DICT + nested_tuples(60, twice=True) + b"K\x01s",
    "a deep key": hostile.EMPTY_DICT + nested_tuples(200_000, twice=False) + b"K\x01s",
    "keys at once": hostile.EMPTY_DICT + hostile.MARK + nested_tuples(60, twice=True) + b"K\x01u",
    "an OrderedDict": hostile.imported("collections", "OrderedDict")
    + b"]" + nested_tuples(60, twice=True) + b"K\x01\x86a\x85R",
    "a set": hostile.imported("builtins", "set") + b"]" + nested_tuples(60, twice=True) + b"a\x85R",
    "a frozenset": hostile.MARK + nested_tuples(60, twice=True) + b"\x91",
}  # fmt: skip


@pytest.mark.parametrize("write", [hostile.write_torch_zip, hostile.write_torch_legacy], ids=["zip", "legacy"])
@pytest.mark.parametrize("name", slow(KEYS, "a deep key"))
def test_tuples_of_tuples_as_keys_of_a_pickle(name: str, write: Callable[[Path, bytes], Path], tmp_path: Path) -> None:
    path = write(tmp_path / "m.pt", hostile.PROTO4 + KEYS[name] + hostile.STOP)
    with pytest.raises(api.ConvertError, match="is no model") as caught:
        api.inspect(path)
    assert caught.value.exit_code == 5


# -- Keras ------------------------------------------------------------------------------------------------------------


def changed_keras(path: Path, change: Callable[[Any], None]) -> Path:
    """Return a Keras model whose weights file contains more than the model."""
    import h5py

    weights = path.with_suffix(".h5")
    with zipfile.ZipFile(FIXTURES / "mnist_cnn.keras") as old:
        weights.write_bytes(old.read("model.weights.h5"))
        with h5py.File(weights, "a") as file:
            change(file)
        with zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                new.writestr(name, weights.read_bytes() if name == "model.weights.h5" else old.read(name))
    return path


def link_groups(file: Any) -> None:
    groups = [file.create_group(f"g{i}") for i in range(20)]
    for group in groups:
        for i, other in enumerate(groups):
            group[f"link{i}"] = other


def claim_a_lot(file: Any) -> None:
    file.create_dataset("claimed", shape=(1 << 38,), chunks=(1 << 16,), dtype="f4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [(link_groups, "has two places"), (claim_a_lot, "says that it holds 1,099.5 GB")],
    ids=["links", "sizes"],
)
def test_weights_of_keras_that_have_no_end(change: Callable[[Any], None], told: str, tmp_path: Path) -> None:
    refused("inspect", changed_keras(tmp_path / "m.keras", change), code=5, told=told)
