"""The ONNX frontend: what it keeps of a model, how inputs are described, and which files it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from convert.frontends import onnx as frontend
from onnx import helper

import convert
from convert.errors import BadInput, Unsupported, UsageError
from convert.graph import OPSET
from convert.outcome.report import Report
from convert.passes.opset.convert import convert_opset
from convert.request.options import Options
from tests.frontends.onnx.onnx_files import specs, weighted
from tests.support.onnx_support import INT64, array, info, model, read


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


@pytest.mark.parametrize(
    ("node", "declared", "reason"),
    [
        (("Relu", ["x"]), info("y", [4, 5]), "Relu: Inferred shape and existing shape differ in dimension 0"),
        (("Relu", ["x"]), info("y", [2, 3], INT64), "Relu: Inferred elem type differs from existing elem type"),
        (("MatMul", ["x", "x"]), info("y", ["a", "b"]), "MatMul: Incompatible dimensions for matrix multiplication"),
        (("Where", ["x", "x", "x"]), info("y", [2, 3]), "Where: condition typestr: B, has unsupported type"),
    ],
)
def test_what_cannot_be_is_said(node: tuple[str, list[str]], declared: onnx.ValueInfoProto, reason: str) -> None:
    report = Report("test")
    read(model([helper.make_node(*node, ["y"])], [info("x", [2, 3])], [declared]), report=report)
    (note,) = report.notes
    assert note.partition("may run nowhere: ")[2].startswith(reason)


def test_what_is_left_open_is_no_contradiction() -> None:
    report = Report("test")
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    proto = model(nodes, [info("x", ["batch", 3])], [info("y", [1, None])])  # its batch was opened at the input alone
    proto.graph.value_info.append(info("h", ["n", "m"]))
    read(proto, report=report)
    assert not report.notes


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


def test_unknown_domains_are_kept() -> None:
    proto = model(
        [helper.make_node("Magic", ["x"], ["y"], domain="mine")], [info("x", [2])], [info("y", [2])], domains=["mine"]
    )
    assert [(n.domain, n.op_type) for n in read(proto).graph] == [("mine", "Magic")]


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


def test_an_output_of_maps_is_refused_with_the_way_out() -> None:
    """scikit-learn's converter writes such an output by default."""
    kind = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(kind))
    nodes = [
        helper.make_node("Neg", ["x"], ["numbers"]),
        helper.make_node("ZipMap", ["numbers"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
        helper.make_node("Abs", ["x"], ["label"]),
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph(nodes, "g", [info("x", ["n", 2])], [info("label", ["n", 2]), maps])
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    with pytest.raises(Unsupported, match="'maps' is of maps") as raised:
        read(proto)
    assert raised.value.hint.endswith("--outputs label,numbers")
    shared = read(proto, Options(outputs=("label", "numbers")))
    assert [n.op_type for n in shared.graph] == ["Neg", "Abs"]
    assert [v.name for v in shared.graph.outputs] == ["label", "numbers"]


@pytest.mark.parametrize("version", [0, 11])
def test_unknown_opsets_of_other_domains(version: int) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    scaler = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])
    for node in (scaler, helper.make_node("Relu", ["x"], ["y"])):
        graph = helper.make_graph([node], "g", [info("x", [2])], [info("y", [2])])
        proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
        if node is scaler:
            with pytest.raises(Unsupported, match=rf"opset {version} of ai\.onnx\.ml"):
                read(proto)
        else:
            read(proto)


def test_dims_whose_names_are_numbers_are_dynamic(tmp_path: Path) -> None:
    """A dim called `7` has any size; names that differ stay different, also from `dim_7_`."""
    names = ["7", "7.", "7-", "dim_7_", "7", "3+4", "n+1"]
    ends = [helper.make_tensor_value_info(f"{end}{i}", 1, [d, 3]) for end in "xy" for i, d in enumerate(names)]
    nodes = [helper.make_node("Neg", [f"x{i}"], [f"y{i}"]) for i in range(len(names))]
    graph = helper.make_graph(nodes, "g", ends[: len(names)], ends[len(names) :])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    done = convert.convert(path, "onnx", tmp_path / "o.onnx")
    assert [x.shape[0] for x in done.inputs if x.shape] == [
        "dim_7", "dim_7__", "dim_7___", "dim_7_", "dim_7", "dim_3_4", "n+1"
    ]  # fmt: skip
    assert done.verdict is not None
    assert "dim_7 1–" in done.verdict.covered
