"""Weights stay in the file until they are read, and are refused if their declaration is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

from convert.errors import BadInput, Unsupported
from convert.reference.executor import run
from tests.frontends.onnx.onnx_files import external, weighted
from tests.suites.hostile_files.onnx_files import held_inside
from tests.support.onnx_support import FLOAT, array, info, model, read


def test_weights_of_a_file_stay_in_it(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(weighted(), path)
    weight = read(path).graph.initializers["w"].const_value
    assert isinstance(weight, ir.LazyTensor)
    assert np.array_equal(weight.numpy(), onnx.numpy_helper.to_array(weighted().graph.initializer[0]))


def test_sparse_initializers_become_dense() -> None:
    proto = model([helper.make_node("Add", ["x", "s"], ["y"])], [info("x", [3, 2])], [info("y", [3, 2])])
    values, indices = array("s", [5.0, 7.0]), array("", [1, 4], np.int64)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 2]))
    got = run(read(proto), {"x": np.zeros((3, 2), np.float32)})["y"]
    assert got.tolist() == [[0, 5], [0, 0], [7, 0]]


def test_sparse_constants_and_sparse_weights_of_branches_become_dense() -> None:
    sparse = helper.make_sparse_tensor(array("s", [5.0, 7.0]), array("", [1, 4], np.int64), [3, 2])
    nodes = [helper.make_node("Constant", [], ["s"], sparse_value=sparse), helper.make_node("Add", ["x", "s"], ["y"])]
    constant = model(nodes, [info("x", [3, 2])], [info("y", [3, 2])])
    inner = helper.make_graph([helper.make_node("Add", ["x", "s"], ["z"])], "b", [], [info("z", [3, 2])])
    inner.sparse_initializer.append(sparse)
    branch = model([helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)], [info("x", [3, 2])],
                   [info("y", [3, 2])])  # fmt: skip
    branch.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "c"))
    feeds = {"x": np.zeros((3, 2), np.float32)}
    for proto in (constant, branch):
        want = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
        assert np.array_equal(run(read(proto), feeds)["y"], want)


@pytest.mark.parametrize("name", held_inside("x"))
@pytest.mark.parametrize("location", ["secret", "../secret", "/etc/hostname"])
def test_no_tensor_inside_is_read_from_elsewhere(
    name: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`secret` is in the current directory, where onnx looks for files that the model's folder lacks."""
    (tmp_path / "model").mkdir()
    (tmp_path / "here").mkdir()
    for folder in (tmp_path, tmp_path / "here"):
        (folder / "secret").write_bytes(np.array([41, 42], np.float32).tobytes())
    path = tmp_path / "model" / "m.onnx"
    path.write_bytes(held_inside(location)[name].SerializeToString())
    monkeypatch.chdir(tmp_path / "here")
    if name == "what it was trained with":  # nothing reads this one
        assert not read(path).graph.initializers
        return
    with pytest.raises(BadInput, match=r"are said to be in|is not beside"):
        read(path)
    if location == "secret":
        content = np.array([1])
        (tmp_path / "model" / "secret").write_bytes(content.tobytes())
        want = [0, 1] if "indices" in name else content.view(np.float32).tolist()
        assert run(read(path), {"x": np.zeros(2, np.float32)})["y"].tolist() == want


def test_external_data_is_read_lazily(tmp_path: Path) -> None:
    weight = read(external(tmp_path)).graph.initializers["w"].const_value
    assert isinstance(weight, ir.LazyTensor)
    assert np.array_equal(weight.numpy(), onnx.numpy_helper.to_array(weighted().graph.initializer[0]))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"location": "absent.bin"}, "absent.bin.*not beside"),
        ({"location": "../w.bin"}, "outside the folder"),
        ({"location": "sub/../../w.bin"}, "outside the folder"),
        ({"location": None}, "outside the folder"),
        ({"offset": 8}, "too short"),
        ({"offset": -8}, "at -8"),
        ({"offset": "x"}, "no readable offset"),
        ({"length": 8}, "need 32000"),
        ({"length": 1 << 62}, "need 32000"),
    ],
)
def test_bad_external_data(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(32000))
    path = external(folder, **{"location": "w.bin", **changes})
    with pytest.raises(BadInput, match=text):
        read(path)


def test_external_data_by_absolute_path_and_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(32000))
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(BadInput, match="outside the folder"):
        read(external(folder, location=str(secret)))
    os.symlink(secret, folder / "link.bin")
    with pytest.raises(BadInput, match="outside the folder"):
        read(external(folder, location="link.bin"))
    os.symlink(tmp_path, folder / "up")
    with pytest.raises(BadInput, match="outside the folder"):
        read(external(folder, location="up/secret.bin"))


def test_links_of_a_download_cache_are_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    os.symlink(external(blobs), snapshot / "model.onnx")
    os.symlink(blobs / "w.bin", snapshot / "w.bin")
    assert read(snapshot / "model.onnx").graph.initializers["w"].const_value.numpy().shape == (4000, 2)


def test_external_data_of_a_model_in_memory(tmp_path: Path) -> None:
    proto = onnx.load(external(tmp_path), load_external_data=False)
    with pytest.raises(BadInput, match="in memory has no folder"):
        read(proto)


def tampered(**fields: Any) -> onnx.ModelProto:
    proto = weighted()
    tensor = proto.graph.initializer[0]
    for name, value in fields.items():
        if name == "dims":
            del tensor.dims[:]
            tensor.dims.extend(value)
        else:
            setattr(tensor, name, value)
    return proto


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (tampered(dims=[-4000, 2]), "negative dim"),
        (tampered(dims=[1 << 40, 1 << 40]), "bytes of data where its dims"),
        (tampered(dims=[1 << 62, 4]), "bytes of data where its dims"),
        (tampered(dims=[1 << 62]), "bytes of data where its dims"),
        (tampered(dims=[4000]), "bytes of data where its dims"),
        (tampered(data_type=0), "no known dtype"),
        (tampered(data_type=99), "no known dtype"),
        (tampered(raw_data=b"x" * 5000), "bytes of data where its dims"),
    ],
    ids=["negative", "huge", "overflows to zero", "overflows", "too few", "no dtype", "unknown dtype", "other size"],
)
def test_tensors_that_lie_about_their_size(proto: onnx.ModelProto, text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=text):
        read(proto)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(BadInput, match=text):
        read(path)


def test_a_lie_inside_an_attribute() -> None:
    tensor = onnx.TensorProto(data_type=FLOAT, dims=[1 << 61, 8], float_data=[1.0])
    proto = model([helper.make_node("Constant", [], ["y"], value=tensor)], [], [info("y", None)])
    with pytest.raises(BadInput, match="has 1 values where its dims"):
        read(proto)


def test_a_sparse_tensor_that_is_too_large_or_points_outside() -> None:
    for dims, error in (([1 << 20, 1 << 20], Unsupported), ([2, 2], BadInput), ([-2, 2], BadInput)):
        proto = model([helper.make_node("Identity", ["s"], ["y"])], [], [info("y", None)])
        sparse = helper.make_sparse_tensor(array("s", [1.0]), array("", [5], np.int64), dims)
        proto.graph.sparse_initializer.append(sparse)
        with pytest.raises(error):
            read(proto)
