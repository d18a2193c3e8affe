"""A file must declare order, dims and dtypes of its inputs and outputs correctly, even if the numbers agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import convert
from convert import plugin
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, PASS
from convert.parity.compare.declared_signature import contradictions
from convert.parity.method import VerifyMethod
from convert.parity.verify import verify
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.declared_signature import DeclaredSignature, DeclaredTensor
from convert.runtimes.onnx import import_onnxruntime, run_file
from convert.runtimes.onnx_declared import declared_signature_of


def model() -> onnx.ModelProto:
    """Return y = exp(a) + b and z = a - b, with weights that are also declared as inputs, as in older files."""
    a, b, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in "abyz")
    nodes = [
        helper.make_node("Exp", ["a"], ["e"]),
        helper.make_node("Add", ["e", "b"], ["s"]),
        helper.make_node("Mul", ["s", "w"], ["y"]),
        helper.make_node("Sub", ["a", "b"], ["z"]),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    declared = helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "g", [declared, a, b], [y, z], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _swap(side: str) -> Callable[[onnx.ModelProto], None]:
    def change(proto: onnx.ModelProto) -> None:
        values = getattr(proto.graph, side)
        values.extend([values[-2]])
        del values[-3]

    return change


def _fixed_batch(proto: onnx.ModelProto) -> None:
    proto.graph.output[1].type.tensor_type.shape.dim[0].dim_value = 1


def _another_rank(proto: onnx.ModelProto) -> None:
    del proto.graph.output[0].type.tensor_type.shape.dim[1]


def _doubles(proto: onnx.ModelProto) -> None:
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.DOUBLE
    proto.graph.node[0].input[0] = proto.graph.node[3].input[0] = "narrow"
    proto.graph.node.insert(0, helper.make_node("Cast", ["a"], ["narrow"], to=TensorProto.FLOAT))


DEFECTS: dict[str, tuple[Callable[[onnx.ModelProto], None], str]] = {
    "outputs swapped": (_swap("output"), "the target has its outputs in the order z, y"),
    "inputs swapped": (_swap("input"), "the target has its inputs in the order b, a"),
    "batch of one": (_fixed_batch, "the target declares output 'z' as [1, 3], and gives ["),
    "rank": (_another_rank, "the target declares output 'y' as [?], and gives ["),
    "dtype": (_doubles, "the target declares input 'a' as double, which is float in the source"),
}


def _files(folder: Path, change: Callable[[onnx.ModelProto], None]) -> tuple[Source, Source, ir.Model]:
    onnx.save(model(), folder / "source.onnx")
    proto = model()
    change(proto)
    onnx.save(proto, folder / "target.onnx")
    source = Source("onnx", folder / "source.onnx")
    graph = plugin.frontends()["onnx"].read(source, Options(), Report("read"))
    return source, Source("onnx", folder / "target.onnx"), graph


def _found(files: tuple[Source, Source, ir.Model]) -> list[str]:
    _, target, graph = files
    feeds = [{"a": np.zeros((n, 3), np.float32), "b": np.ones((n, 3), np.float32)} for n in (1, 2)]
    kinds = {i.name: i.type for i in import_onnxruntime().InferenceSession(target.file).get_inputs()}
    feeds = [{n: v.astype(np.float64) if "double" in kinds[n] else v for n, v in feed.items()} for feed in feeds]
    declared = declared_signature_of(target.file)
    return contradictions(declared, graph, run_file(target.file, feeds), "", Names(), dtypes=True)


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_is_not_as_it_is_declared_is_found(defect: str, tmp_path: Path) -> None:
    change, reason = DEFECTS[defect]
    (found,) = _found(_files(tmp_path, change))
    assert found.startswith(reason.removeprefix("the target "))


def test_what_is_as_it_is_declared_is_right(tmp_path: Path) -> None:
    assert _found(_files(tmp_path, lambda proto: None)) == []


@pytest.mark.parametrize("dtype", ["bool", "double", "float16", "int64", "uint8"])
def test_every_input_of_another_dtype_is_told(dtype: str, tmp_path: Path) -> None:
    """A wrong dtype is reported after an input that is right, and after one that is not declared."""
    _, _, graph = _files(tmp_path, lambda proto: None)
    ends = [DeclaredTensor("a", "float", None), DeclaredTensor("b", dtype, None)]
    wrong = [f"declares input 'b' as {dtype}, which is float in the source"]
    assert contradictions(DeclaredSignature(ends, []), graph, [], "", Names(), dtypes=True) == wrong
    assert contradictions(DeclaredSignature(ends[1:], []), graph, [], "", Names(), dtypes=True) == wrong
    assert contradictions(DeclaredSignature(ends, []), graph, [], "", Names(), dtypes=False) == []


@pytest.mark.slow
@pytest.mark.not_core
def test_what_convert_wrote_fails_and_of_a_file_of_the_users_it_is_noted(tmp_path: Path) -> None:
    change, reason = DEFECTS["batch of one"]
    source, target, graph = _files(tmp_path, change)
    made = verify(source, target, graph, Options(), VerifyMethod(seeds=1))
    assert (made.status, made.at_fault) == (FAIL, "backend")
    assert made.reason.startswith(reason)
    theirs = convert.verify(source.file, target.file, method=VerifyMethod(seeds=1)).verdict
    assert theirs is not None
    assert theirs.status == PASS
    assert any(note.startswith(reason) for note in theirs.notes)


def _picked(rows: int | str) -> onnx.ModelProto:
    """Return three of four numbers; the file declares them as one for each row, and inference says nothing."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", [rows, 4]), ("y", [rows])))
    kept = helper.make_tensor("kept", TensorProto.BOOL, [4], [1, 1, 0, 1])
    graph = helper.make_graph([helper.make_node("Compress", ["x", "kept"], ["y"])], "g", [x], [y], [kept])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_size_that_the_source_is_wrong_about_is_a_note(tmp_path: Path) -> None:
    onnx.save(_picked(1), tmp_path / "source.onnx")
    report = convert.convert(tmp_path / "source.onnx", to="onnx", output=tmp_path / "target.onnx")
    assert report.verdict is not None
    assert report.verdict.status == PASS
    assert "the target declares output 'y' as [1], and gives [3], as the source does" in report.verdict.notes


def test_a_dim_of_an_output_that_nothing_derives_gets_no_size(tmp_path: Path) -> None:
    onnx.save(_picked("rows"), tmp_path / "source.onnx")
    target = tmp_path / "target.onnx"
    report = convert.convert(tmp_path / "source.onnx", to="onnx", output=target, inputs="x:float32[1,4]")
    assert report.verdict is not None
    assert (report.verdict.status, report.verdict.notes) == (PASS, [])
    (output,) = onnx.load(target).graph.output
    assert output.type.tensor_type.shape.dim[0].dim_param == "rows"
