"""The ONNX frontend: what it keeps, what it lifts, what it refuses, and that it leaves weights where they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from convert.frontends import onnx as frontend
from onnx import helper
from onnx.backend.test.loader import load_model_tests

from convert.errors import BadInput, Unsupported, UsageError
from convert.graph import OPSET
from convert.options import Options, parse_input
from convert.passes.opset.convert import convert_opset
from convert.reference.executor import run
from convert.report import Report
from tests.support.onnx_support import FLOAT, INT64, array, assert_same, data_of, info, model, node_tests, read, run_ort

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def weighted(size: int = 4000) -> onnx.ModelProto:
    """y = x·w with a weight that is not small."""
    w = np.random.default_rng(1).normal(size=(size, 2)).astype(np.float32)
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        [info("x", ["batch", size])],
        [info("y", ["batch", 2])],
        [array("w", w)],
    )


def external(tmp_path: Path, location: str = "w.bin", **changes: Any) -> Path:
    """A model whose weight is in a file beside it; `changes` are external data entries to write instead."""
    proto = weighted()
    tensor = proto.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": 0, "length": len(data), **changes}.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    (tmp_path / "w.bin").write_bytes(data)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_names_order_dtypes_and_dims_are_kept() -> None:
    nodes = [helper.make_node("Shape", ["ids"], ["dims"], name="s"), helper.make_node("Relu", ["image"], ["image_out"])]
    proto = model(
        nodes,
        [info("image", ["N", 3, None, "W"]), info("ids", ["N", "T"], INT64)],
        [info("dims", [2], INT64), info("image_out", ["N", 3, None, "W"])],
        opset=13,
        ir_version=7,
    )
    graph = read(proto).graph
    assert [v.name for v in graph.inputs] == ["image", "ids"]
    assert [v.name for v in graph.outputs] == ["dims", "image_out"]
    assert [d if isinstance(d, int) else d.value for d in graph.inputs[0].shape] == ["N", 3, None, "W"]
    assert [d if isinstance(d, int) else d.value for d in graph.outputs[1].shape] == ["N", 3, None, "W"]
    assert graph.inputs[1].dtype == ir.DataType.INT64
    assert graph.opset_imports[""] == OPSET
    assert {n.name for n in graph} >= {"s"}


def test_inferred_facts_replace_stale_ones() -> None:
    proto = model(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Flatten", ["h"], ["y"])],
        [info("x", [2, 3, 4])],
        [info("y", [2, 12])],
    )
    proto.graph.value_info.append(info("h", [7, 7]))
    graph = read(proto).graph
    assert graph.node(0).outputs[0].shape == ir.Shape([2, 3, 4])


def test_weights_of_a_file_stay_in_it(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(weighted(), path)
    weight = read(path).graph.initializers["w"].const_value
    assert isinstance(weight, ir.LazyTensor)
    assert np.array_equal(weight.numpy(), onnx.numpy_helper.to_array(weighted().graph.initializer[0]))


def test_initializers_listed_as_inputs_are_no_inputs() -> None:
    proto = weighted()
    proto.ir_version = 3
    proto.graph.input.append(info("w", [4000, 2]))
    report = Report("test")
    graph = read(proto, report=report).graph
    assert [v.name for v in graph.inputs] == ["x"]
    assert "w" in graph.initializers
    assert not report.notes
    proto.ir_version = 8
    read(proto, report=report)
    assert report.notes == ["inputs with default values became constants: w"]


def test_a_model_in_memory_is_left_as_it_was() -> None:
    proto = weighted()
    before = proto.SerializeToString()
    read(proto)
    assert proto.SerializeToString() == before
    known = ir.serde.deserialize_model(proto)
    read(known)
    assert (
        ir.serde.serialize_model(known).SerializeToString()
        == ir.serde.serialize_model(ir.serde.deserialize_model(proto)).SerializeToString()
    )


def test_claims_models_in_memory_only() -> None:
    proto = weighted()
    assert frontend.claims(proto) == "onnx-object"
    assert frontend.claims(ir.serde.deserialize_model(proto)) == "onnx-object"
    assert frontend.claims(proto.graph) is None
    assert frontend.claims("m.onnx") is None


def test_functions_are_inlined() -> None:
    body = [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Relu", ["t"], ["b"])]
    double = helper.make_function("mine", "Double", ["a"], ["b"], body, [helper.make_opsetid("", 20)])
    nodes = [
        helper.make_node("Double", ["x"], ["h"], domain="mine"),
        helper.make_node("Double", ["h"], ["y"], domain="mine"),
    ]
    proto = model(nodes, [info("x", [2, 3, 4])], [info("y", [2, 3, 4])], domains=["mine"], functions=[double])
    shared = read(proto)
    assert not shared.functions
    assert [n.op_type for n in shared.graph] == ["Add", "Relu", "Add", "Relu"]
    assert_same(run(shared, {"x": X})["y"], run_ort(proto, {"x": X})[0])


def test_unknown_domains_are_kept() -> None:
    proto = model(
        [helper.make_node("Magic", ["x"], ["y"], domain="mine")], [info("x", [2])], [info("y", [2])], domains=["mine"]
    )
    assert [(n.domain, n.op_type) for n in read(proto).graph] == [("mine", "Magic")]


def test_sparse_initializers_become_dense() -> None:
    proto = model([helper.make_node("Add", ["x", "s"], ["y"])], [info("x", [3, 2])], [info("y", [3, 2])])
    values, indices = array("s", [5.0, 7.0]), array("", [1, 4], np.int64)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 2]))
    got = run(read(proto), {"x": np.zeros((3, 2), np.float32)})["y"]
    assert got.tolist() == [[0, 5], [0, 0], [7, 0]]


# -- lifting ----------------------------------------------------------------------------------------------------------

OLD = [
    c
    for kind in ("pytorch-converted", "pytorch-operator", "simple")
    for c in load_model_tests(kind=kind)
    if "gradient" not in c.name
]


@pytest.mark.parametrize("case", OLD[::6], ids=lambda c: c.name)
def test_old_models_compute_the_same_when_lifted(case: Any) -> None:
    folder = Path(case.model_dir)
    shared = read(folder / "model.onnx")
    data = folder / "test_data_set_0"

    def load(what: str) -> list[Any]:
        tensors = []
        for i in range(len(list(data.glob(f"{what}_*.pb")))):
            content = (data / f"{what}_{i}.pb").read_bytes()
            tensors.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content)))
        return tensors

    feeds = dict(zip([v.name for v in shared.graph.inputs], load("input"), strict=True))
    got = run(shared, feeds)
    for value, wanted in zip(got.values(), load("output"), strict=True):
        assert_same(value, wanted, 1e-4)


def test_broadcast_of_opset_6_with_a_dynamic_batch() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)
    proto = model([node], [info("x", ["N", 3, 4]), info("b", [3])], [info("y", ["N", 3, 4])], opset=6, ir_version=3)
    b = np.array([1, 2, 3], np.float32)
    assert np.array_equal(run(read(proto), {"x": X, "b": b})["y"], X + b[:, None])


@pytest.mark.parametrize("name", ["test_swish", "test_attention_4d_causal", "test_softmax_axis_1"])
def test_newer_opsets_come_down(name: str) -> None:
    case = node_tests()[name]
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    proto.opset_import[0].version = 25
    inputs, outputs = data_of(case)
    shared = read(proto)
    assert shared.graph.opset_imports[""] == OPSET
    got = run(shared, dict(zip([v.name for v in shared.graph.inputs], inputs, strict=True)))
    assert_same(next(iter(got.values())), outputs[0], 1e-4)


def test_an_operator_that_is_too_new_stays_and_is_named_where_it_cannot() -> None:
    case = node_tests()["test_cumprod_1d"]
    shared = read(case.model)
    assert shared.graph.opset_imports[""] == case.model.opset_import[0].version > OPSET
    assert [n.op_type for n in shared.graph] == ["CumProd"]
    with pytest.raises(Unsupported, match=f"CumProd.*not in opset {OPSET}"):
        convert_opset(shared, OPSET)


@pytest.mark.parametrize(
    ("name", "nested"),
    [
        ("test_sequence_insert_at_back", "sequence"),
        ("test_optional_get_element_optional_sequence", "optional_input"),
    ],
)
def test_named_elements_of_sequences_and_optionals_become_inputs(name: str, nested: str) -> None:
    case = node_tests()[name]
    elements = [f"{nested}_{i}" for i in range(3)]
    shared = read(case.model, specs(*(f"{element}:[n]" for element in elements)))
    assert [v.name for v in shared.graph.inputs] == elements + [v.name for v in case.model.graph.input[1:]]
    made = next(n for n in shared.graph if n.op_type == "SequenceConstruct")
    assert list(made.inputs) == list(shared.graph.inputs[:3])


# -- input specs ------------------------------------------------------------------------------------------------------


def specs(*texts: str) -> Options:
    return Options(inputs=tuple(parse_input(t) for t in texts))


def test_a_dim_is_fixed_everywhere() -> None:
    graph = read(weighted(), specs("x:float32[5,4000]")).graph
    assert graph.inputs[0].shape == ir.Shape([5, 4000])
    assert graph.outputs[0].shape == ir.Shape([5, 2])


def test_a_dim_is_renamed_and_bounded() -> None:
    shared = read(weighted(), specs("[n=1..8,4000]"))
    assert [str(d) for d in shared.graph.outputs[0].shape] == ["n", "2"]
    assert json.loads(shared.metadata_props["convert.dims"]) == {"n": [1, 8]}


@pytest.mark.parametrize("text", ["z:float32[2,4000]", "x:int64[2,4000]", "x:float32[2,3,4]", "x:float32[2,400]"])
def test_specs_that_contradict_the_model(text: str) -> None:
    with pytest.raises(UsageError):
        read(weighted(), specs(text))


# -- what is refused --------------------------------------------------------------------------------------------------


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


def function(name: str, calls: list[str]) -> onnx.FunctionProto:
    names = ["a", *(f"t{i}" for i in range(len(calls) - 1)), "b"]
    nodes = [
        helper.make_node(c, [names[i]], [names[i + 1]], domain="" if c == "Relu" else "mine")
        for i, c in enumerate(calls)
    ]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    return helper.make_function("mine", name, ["a"], ["b"], nodes, imports)


@pytest.mark.parametrize(
    ("functions", "text"),
    [
        (
            [function("F0", ["Relu"] * 10), *(function(f"F{i}", [f"F{i - 1}"] * 10) for i in range(1, 30))],
            "expand to 1000",
        ),
        ([function("F0", ["Relu"]), *(function(f"F{i}", [f"F{i - 1}"]) for i in range(1, 30000))], "nested"),
        ([function("F0", ["F29"]), function("F29", ["F0"])], "in a circle"),
        ([function("F0", ["F0"]), function("F29", ["F0"])], "in a circle"),
    ],
    ids=["bomb", "chain", "circle", "recursion"],
)
def test_functions_that_do_not_end(functions: list[onnx.FunctionProto], text: str) -> None:
    last = functions[-1].name
    proto = model(
        [helper.make_node(last, ["x"], ["y"], domain="mine")],
        [info("x", [2])],
        [info("y", [2])],
        domains=["mine"],
        functions=functions,
    )
    with pytest.raises(BadInput, match=text):
        read(proto)


def test_files_that_are_cut_or_not_onnx(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    whole = weighted().SerializeToString()
    for content in (
        b"",
        whole[:100],
        whole[:-1],
        whole[: len(whole) // 2],
        b"<html>",
        b"\x0a\xff\xff\xff\xff\x0f",
        bytes(64),
    ):
        path.write_bytes(content)
        with pytest.raises(BadInput) as caught:
            read(path)
        assert "\n" not in caught.value.message
        assert caught.value.hint


@pytest.mark.parametrize(
    "proto",
    [
        model([helper.make_node("Relu", ["nowhere"], ["y"])], [info("x", [2])], [info("y", [2])]),
        model(
            [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])],
            [info("x", [2])],
            [info("y", [2])],
        ),
        model([helper.make_node("Relu", ["x"], ["y"], nonsense=1)], [info("x", [2])], [info("y", [2])]),
        model([helper.make_node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])], opset=999),
        model([helper.make_node("NoSuchOperator", ["x"], ["y"])], [info("x", [2])], [info("y", [2])]),
    ],
    ids=["unknown input", "twice", "attribute", "opset", "operator"],
)
def test_invalid_models_are_one_paragraph(proto: onnx.ModelProto) -> None:
    with pytest.raises((BadInput, Unsupported)) as caught:
        read(proto)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_raise_our_errors_only(seed: int, tmp_path: Path) -> None:
    content = bytearray(
        model(
            [helper.make_node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["h"], ["y"])],
            [info("x", ["N", 2, 8, 8])],
            [info("y", ["N", 64, 8, 8])],
            [array("w", np.ones((64, 2, 3, 3)))],
        ).SerializeToString()
    )
    rng = np.random.default_rng(seed)
    for position in rng.integers(0, min(len(content), 400), 3):
        content[position] = rng.integers(0, 256)
    path = tmp_path / "m.onnx"
    path.write_bytes(bytes(content))
    try:
        shared = read(path)
    except (BadInput, Unsupported):
        return
    convert_opset(shared, OPSET)
