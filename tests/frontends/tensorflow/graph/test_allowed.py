"""Operators that do more than compute are found wherever a file can hold them, before any of it is run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.graph.allowed import effects, unsafe_operators
from convert.frontends.tensorflow.graph.protos import MESSAGES
from convert.frontends.tensorflow.runner import runner
from convert.frontends.tensorflow.runner.allowed import check_file

import convert
from convert.errors import UnsafeInput
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source

FIXTURES = Path(__file__).parents[4] / "fixtures"

HOSTILE = {
    "ReadFile": {}, "WriteFile": {}, "PyFunc": {}, "EagerPyFunc": {}, "MatchingFiles": {}, "DatasetToTFRecord": {},
    "DebugNanCount": {"debug_urls": b"file:///tmp/x"}, "DebugNumericSummary": {"debug_urls": b"grpc://localhost:1"},
    "DataServiceDatasetV2": {}, "InitializeTableFromTextFileV2": {}, "SaveV2": {}, "RestoreV2": {}, "Abort": {},
    "DecodeProtoV2": {"descriptor_source": b"/etc/passwd"}, "EncodeProto": {"descriptor_source": b"x.proto"},
    "PrintV2": {"output_stream": b"file:///tmp/x"}, "FixedUnigramCandidateSampler": {"vocab_file": b"/etc/passwd"},
    "XlaCallModule": {}, "RemoteCall": {}, "RpcClient": {}, "TPUCompile": {}, "DatasetFromGraph": {},
}  # fmt: skip
HARMLESS = {
    "PrintV2": {"output_stream": b"stderr"}, "DecodeProtoV2": {"descriptor_source": b"bytes://x"}, "EncodeProto": {},
    "FixedUnigramCandidateSampler": {}, "Assert": {}, "ReadVariableOp": {}, "DecodeJpeg": {}, "HashTableV2": {},
    "TensorSliceDataset": {}, "QueueEnqueueV2": {}, "Print": {}, "RandomUniform": {},
}  # fmt: skip


def add_node(nodes: Any, name: str, operator: str, inputs: tuple[str, ...] = (), **attributes: Any) -> None:
    """Add a node; attributes are functions by name, or bytes."""
    node = nodes.add(name=name, op=operator, input=inputs)
    for key, value in attributes.items():
        if isinstance(value, str):
            node.attr[key].func.name = value
        else:
            node.attr[key].s = value


def add_function(graph: Any, name: str, *nodes: tuple[str, str, dict[str, Any]]) -> Any:
    """Add a function from x to x whose nodes are given with their operators and attributes."""
    function = graph.library.function.add()
    function.signature.name = name
    function.signature.input_arg.add(name="x", type=1)
    function.signature.output_arg.add(name="y", type=1)
    function.ret["y"] = "x"
    for node, operator, attributes in nodes:
        add_node(function.node_def, node, operator, **attributes)
    return function


def saved_model() -> Any:
    """Return a SavedModel that calls a function, which calls another one."""
    saved = MESSAGES["SavedModel"](saved_model_schema_version=1)
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    graph = meta.graph_def
    graph.versions.producer = 2000
    add_node(graph.node, "x", "Placeholder")
    graph.node[0].attr["dtype"].type = 1
    graph.node[0].attr["shape"].shape.dim.add(size=3)
    add_node(graph.node, "y", "PartitionedCall", ("x",), f="outer")
    add_function(graph, "outer", ("call", "PartitionedCall", {"f": "inner"}))
    add_function(graph, "inner")
    signature = meta.signature_def["serving_default"]
    signature.inputs["x"].name, signature.outputs["y"].name = "x:0", "y:0"
    return saved


def in_gradient(saved: Any, operator: str, attributes: dict[str, Any]) -> None:
    graph = saved.meta_graphs[0].graph_def
    add_function(graph, "backwards", ("n", operator, attributes))
    graph.library.gradient.add(function_name="inner", gradient_func="backwards")


def in_initializer(saved: Any, operator: str, attributes: dict[str, Any]) -> None:
    meta = saved.meta_graphs[0]
    add_node(meta.graph_def.node, "n", operator, **attributes)
    add_node(meta.graph_def.node, "init", "NoOp", ("^n",))
    meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "init"


def in_second_graph(saved: Any, operator: str, attributes: dict[str, Any]) -> None:
    saved.meta_graphs.add().CopyFrom(saved.meta_graphs[0])
    saved.meta_graphs[1].meta_info_def.tags[0] = "train"
    add_node(saved.meta_graphs[1].graph_def.node, "n", operator, **attributes)
    saved.meta_graphs[1].signature_def["more"].outputs["n"].name = "n:0"


def in_branch(saved: Any, operator: str, attributes: dict[str, Any]) -> None:
    graph = saved.meta_graphs[0].graph_def
    add_function(graph, "then", ("n", operator, attributes))
    branches = graph.library.function[1].node_def.add(name="case", op="Case").attr["branches"]
    branches.list.func.add(name="then")


PLACES: dict[str, Callable[[Any, str, dict[str, Any]], object]] = {
    "signature": lambda s, op, a: (
        add_node(s.meta_graphs[0].graph_def.node, "n", op, **a),
        s.meta_graphs[0].graph_def.node[1].input.append("^n"),
    ),
    "nested function": lambda s, op, a: add_node(s.meta_graphs[0].graph_def.library.function[1].node_def, "n", op, **a),
    "branch": in_branch,
    "function that nobody calls": lambda s, op, a: add_function(s.meta_graphs[0].graph_def, "alone", ("n", op, a)),
    "gradient": in_gradient,
    "initializer": in_initializer,
    "second meta graph": in_second_graph,
}


def write(tmp_path: Path, saved: Any) -> Source:
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    return Source("savedmodel", tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_what_does_more_than_compute_is_found(tmp_path: Path, place: str) -> None:
    for operator, attributes in HOSTILE.items():
        saved = saved_model()
        PLACES[place](saved, operator, attributes)
        with pytest.raises(UnsafeInput, match=rf"{operator}, node 'n'") as error:
            check_file(write(tmp_path, saved), Options())
        assert "--trust" in error.value.hint
        check_file(write(tmp_path, saved), Options(trust=True))


@pytest.mark.parametrize("place", PLACES)
def test_what_computes_is_not(tmp_path: Path, place: str) -> None:
    for operator, attributes in HARMLESS.items():
        saved = saved_model()
        PLACES[place](saved, operator, attributes)
        check_file(write(tmp_path, saved), Options())


@pytest.mark.parametrize("place", ["initializer", "gradient"])
def test_reader_and_runner_ask_for_source_and_target(tmp_path: Path, place: str) -> None:
    saved = saved_model()
    PLACES[place](saved, "WriteFile", {})
    source, feeds = write(tmp_path, saved), [{"x": np.zeros(3, np.float32)}]
    with pytest.raises(UnsafeInput, match="WriteFile"):
        frontend.read(source, Options(), Report("convert"))
    with pytest.raises(UnsafeInput, match="WriteFile"):
        runner.run(source, feeds, precision="float64", options=Options())
    with pytest.raises(UnsafeInput, match="WriteFile"):
        runner.run_as_used(source, feeds, Options())
    with pytest.raises(UnsafeInput, match="WriteFile"):
        runner.trace(source, feeds[0], Options())


def test_a_target_is_refused_before_it_is_run(tmp_path: Path) -> None:
    saved = saved_model()
    PLACES["initializer"](saved, "WriteFile", {})
    evil = write(tmp_path, saved)
    with pytest.raises(UnsafeInput, match="WriteFile"):
        convert.verify(FIXTURES / "mnist_cnn.onnx", evil.path)


def test_every_operator_is_listed_with_its_function(tmp_path: Path) -> None:
    saved = saved_model()
    for operator in ("WriteFile", "PyFunc", "NobodyKnows"):
        PLACES["nested function"](saved, operator, {})
    PLACES["signature"](saved, "WriteFile", {})
    with pytest.raises(UnsafeInput) as error:
        check_file(write(tmp_path, saved), Options())
    lines = error.value.message.splitlines()[1:]
    assert len(lines) == 3
    assert re.search(r"WriteFile, node 'n': reads or writes files \(and 1 more", lines[0])
    assert "PyFunc, node 'n', in function 'inner'" in lines[1]
    assert "NobodyKnows" in lines[2]


def test_attributes_that_a_caller_sets_are_not_believed(tmp_path: Path) -> None:
    saved = saved_model()
    node = saved.meta_graphs[0].graph_def.library.function[1].node_def.add(name="n", op="PrintV2")
    node.attr["output_stream"].placeholder = "stream"
    with pytest.raises(UnsafeInput, match="prints to a file"):
        check_file(write(tmp_path, saved), Options())


def test_a_function_does_not_lend_its_name_to_an_operator(tmp_path: Path) -> None:
    saved = saved_model()
    add_function(saved.meta_graphs[0].graph_def, "WriteFile")
    PLACES["signature"](saved, "WriteFile", {})
    with pytest.raises(UnsafeInput, match="WriteFile"):
        check_file(write(tmp_path, saved), Options())


def test_frozen_graphs_and_checkpoints_are_asked_too(tmp_path: Path) -> None:
    saved = saved_model()
    PLACES["nested function"](saved, "WriteFile", {})
    meta = saved.meta_graphs[0]
    (tmp_path / "m.pb").write_bytes(meta.graph_def.SerializeToString())
    (tmp_path / "m.meta").write_bytes(meta.SerializeToString())
    for source in (Source("frozen-graph", tmp_path / "m.pb"), Source("tf-meta", tmp_path / "m.meta")):
        for call in (check_file, lambda s, o: frontend.read(s, o, Report("inspect"))):
            with pytest.raises(UnsafeInput, match="WriteFile"):
                call(source, Options())


def test_the_table_names_every_operator_of_the_installed_tensorflow() -> None:
    """A new operator must be reviewed, and gets a line in `operator_effects.tsv`: "computes" or its other effect."""
    pytest.importorskip("tensorflow", reason="it holds the registry")
    from tensorflow.core.framework.op_def_pb2 import OpList
    from tensorflow.python.client import pywrap_tf_session

    found = OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    assert not {op.name for op in found.op} - set(effects())


def test_operators_that_are_refused_are_declared_as_gaps() -> None:
    gaps = {row.name for row in frontend.operators() if row.gap}
    assert set(unsafe_operators()) <= gaps
