"""The ONNX backend: every opset that it writes computes the same in onnxruntime, with internal or external weights."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from convert.backends import onnx as backend
from convert.backends.onnx.writer import write_model
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from convert.errors import Unsupported, UsageError
from convert.graph import Graph
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import array, assert_same, data_of, info, model, node_tests, read, run_ort, session

OPSETS = (7, 9, 11, 13, 17, 20, 23, 25, 26)


def written(proto: Any, path: Path, opset: int = 20) -> Path:
    backend.write(read(proto), path, "onnx", Options(extra={"opset": opset}), Report("test"))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("opset", [n if n in (11, 23) else pytest.param(n, marks=pytest.mark.long) for n in OPSETS])
def test_node_tests_compute_the_same(opset: int, tmp_path: Path) -> None:
    """Every seventh of ONNX's node tests is lifted and lowered: it gives the same numbers, or an Unsupported with the
    operator.
    """
    ran = refused = 0
    for name in sorted(node_tests())[::7]:
        case = node_tests()[name]
        inputs, _ = data_of(case)
        try:
            original = session(case.model)
            feeds = dict(zip([i.name for i in original.get_inputs()], inputs, strict=True))
            wanted = original.run(None, feeds)
        except Exception:  # onnxruntime does not run this node test itself
            continue
        try:
            path = written(case.model, tmp_path / "m.onnx", opset)
        except Unsupported as error:
            assert "\n" in str(error) or "opset" in str(error) or "no such operator" in str(error), name  # noqa: PT017
            refused += 1
            continue
        onnx.checker.check_model(str(path))
        try:
            after = session(path)
            assert [i.name for i in after.get_inputs()] == [i.name for i in original.get_inputs()], name
            assert [(o.name, o.type) for o in after.get_outputs()] == [
                (o.name, o.type) for o in original.get_outputs()
            ], name
            found = after.run(None, feeds)
        except NoKernel:  # the operator is too old
            found = run_evaluator(path, feeds)
        for got, expected in zip(found, wanted, strict=True):
            assert_same(got, expected, 1e-4)
        ran += 1
    # Most tests that onnxruntime runs can be expressed; the share grows with the opset.
    assert ran >= {7: 85, 9: 105, 11: 110, 13: 125, 17: 135, 20: 160, 23: 160, 25: 160, 26: 160}[opset], (ran, refused)


def run_evaluator(path: Path, feeds: dict[str, Any]) -> Any:
    """Run ONNX's own evaluator, for dtypes that onnxruntime has no kernels for."""
    return ReferenceEvaluator(str(path)).run(None, feeds)


def grid(dtype: Any) -> np.ndarray:
    """Return numbers of both signs between the smallest and the largest, zeros, infinities, and NaN."""
    ends = ml_dtypes.finfo(dtype)
    small, normal, large = (float(v) for v in (ends.smallest_subnormal, ends.smallest_normal, ends.max))
    numbers = [0, small, 3 * small, normal, 0.1, 0.5, 1, 1.5, 3, 7.7, 100.25, large / 3, large, np.inf]
    return np.array([*numbers, *(-n for n in numbers), np.nan], np.float64).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "opset", "run"),
    [
        *((d, n, run_ort) for d in (np.float16, np.float32, np.float64) for n in (11, 13, 23)),
        *((ml_dtypes.bfloat16, n, run_evaluator) for n in (20, 23)),
    ],
)
def test_the_remainder_of_opset_28(dtype: Any, opset: int, run: Any, tmp_path: Path) -> None:
    """Mod of floating numbers with the divisor's sign equals NumPy's to the last bit, including the sign of zero."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = grid(dtype)[:, None].copy(), grid(dtype)[None].copy()
    node = helper.make_node("Mod", ["x", "y"], ["z"])
    values = [info("x", ["n", 1], kind), info("y", [1, "m"], kind)]
    proto = model([node], values, [info("z", ["n", "m"], kind)], opset=28, ir_version=13)
    path = written(proto, tmp_path / "m.onnx", opset)
    onnx.checker.check_model(str(path), full_check=True)
    with np.errstate(all="ignore"):
        wanted = np.mod(*np.broadcast_arrays(x, y))
    (got,) = run(path, {"x": x, "y": y})
    assert got.dtype == wanted.dtype
    known = ~np.isnan(wanted)
    assert np.array_equal(np.isnan(got), ~known)
    assert got[known].tobytes() == wanted[known].tobytes()


@pytest.mark.parametrize("opset", [13, 23])
@pytest.mark.parametrize("keys", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
def test_a_mask_of_opset_24_may_lack_keys(dtype: Any, keys: int, opset: int, tmp_path: Path) -> None:
    """The last keys may be missing in the mask; no query sees them then."""
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=(1, 2, m, 8)).astype(np.float32) for n, m in (("q", 3), ("k", 6), ("v", 6))}
    feeds["m"] = (rng.normal(size=(3, keys)) + 1).astype(dtype)
    inputs = [info(n, v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for n, v in feeds.items()]
    node = helper.make_node("Attention", list(feeds), ["y"])
    proto = model([node], inputs, [info("y", [1, 2, 3, 8])], opset=24, ir_version=11)
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    assert_same(run_ort(written(proto, tmp_path / "m.onnx", opset), feeds)[0], wanted[0])  # type: ignore[index]


def test_a_dtype_that_an_opset_does_not_give_is_named(tmp_path: Path) -> None:
    proto = model(
        [helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.BFLOAT16)],
        [info("x", [2])],
        [info("y", [2], onnx.TensorProto.BFLOAT16)],
    )
    with pytest.raises(Unsupported, match="does not give bfloat16"):
        backend.check(read(proto), "onnx", Options(extra={"opset": 11}))


def network() -> onnx.ModelProto:
    """Return a network of operators that older opsets need written out: LayerNormalization, Gelu, Split, …"""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["a"], axis=-1, epsilon=1e-6),
        helper.make_node("Gelu", ["a"], ["b"]),
        helper.make_node("Split", ["b"], ["c", "d"], axis=-1, num_outputs=2),
        helper.make_node("ReduceMean", ["c", "last"], ["e"], keepdims=1),
        helper.make_node("Mul", ["d", "e"], ["f"]),
        helper.make_node("Pad", ["f", "pads", "", "last"], ["g"]),
        helper.make_node("Softmax", ["g"], ["h"], axis=1),
        helper.make_node("MatMul", ["h", "w"], ["i"]),
        helper.make_node("Unsqueeze", ["i", "last"], ["j"]),
        helper.make_node("ReduceSum", ["j", "last"], ["y"], keepdims=0),
    ]
    constants = [
        array("scale", rng.normal(size=8)),
        array("shift", rng.normal(size=8)),
        array("last", [-1], np.int64),
        array("pads", [1, 2], np.int64),
        array("w", rng.normal(size=(7, 600))),
    ]
    return model(nodes, [info("x", ["N", 5, 8])], [info("y", ["N", 5, 600])], constants)


@pytest.mark.parametrize("opset", range(11, 24))
def test_every_opset_computes_the_same(opset: int, tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5, 8)).astype(np.float32)
    wanted = run_ort(network(), {"x": x})[0]
    path = written(network(), tmp_path / "m.onnx", opset)
    onnx.checker.check_model(str(path), full_check=True)
    saved = onnx.load(path)
    assert saved.opset_import[0].version == opset
    assert saved.ir_version == helper.find_min_ir_version_for([helper.make_opsetid("", opset)])
    assert_same(run_ort(path, {"x": x})[0], wanted)
    assert [d.dim_param or d.dim_value for d in saved.graph.output[0].type.tensor_type.shape.dim] == ["N", 5, 600]


@pytest.mark.parametrize("opset", [6, 29, 0])
def test_opsets_that_are_not_written(opset: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        written(network(), tmp_path / "m.onnx", opset)
    assert not list(tmp_path.iterdir())


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RegexFullMatch", ["x"], ["a"], pattern="a+"),
        helper.make_node("StringConcat", ["x", "x"], ["b"]),
        helper.make_node("StringConcat", ["b", "x"], ["c"]),
    ]
    text = onnx.TensorProto.STRING
    proto = model(nodes, [info("x", [2], text)], [info("a", None, onnx.TensorProto.BOOL), info("c", None, text)])
    shared = read(proto)
    with pytest.raises(Unsupported) as caught:
        backend.check(shared, "onnx", Options(extra={"opset": 13}))
    assert [(p.at.operator, p.count) for p in caught.value.problems] == [("RegexFullMatch", 1), ("StringConcat", 2)]
    assert shared.graph.opset_imports[""] == 23
    assert [n.op_type for n in shared.graph] == ["RegexFullMatch", "StringConcat", "StringConcat"]
    with pytest.raises(Unsupported):
        backend.write(shared, tmp_path / "m.onnx", "onnx", Options(extra={"opset": 13}), Report("test"))
    assert not list(tmp_path.iterdir())


def test_wrong_types_for_an_old_opset_are_named() -> None:
    proto = model(
        [helper.make_node("CumSum", ["x", "axis"], ["y"])],
        [info("x", [2], onnx.TensorProto.BFLOAT16)],
        [info("y", [2], onnx.TensorProto.BFLOAT16)],
        [array("axis", 0, np.int64)],
    )
    with pytest.raises(Unsupported, match="does not take bfloat16"):
        backend.check(read(proto), "onnx", Options(extra={"opset": 11}))


def test_lowering_happens_inside_subgraphs(tmp_path: Path) -> None:
    def branch(operator: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(operator, ["x"], [f"{operator}_out"])], operator, [], [info(f"{operator}_out", [2, 3])]
        )

    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch("Gelu"), else_branch=branch("Mish"))],
        [info("c", [], onnx.TensorProto.BOOL), info("x", [2, 3])],
        [info("y", [2, 3])],
    )
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    path = written(proto, tmp_path / "m.onnx", 13)
    for flag in (True, False):
        feeds = {"c": np.array(flag), "x": x}
        assert_same(run_ort(path, feeds)[0], run_ort(proto, feeds)[0])


def test_transposes_around_operators_cancel(tmp_path: Path) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["N", 6, 6, 3])
    rng = np.random.default_rng(2)
    y = x
    for _ in range(3):
        y = g.Transpose(y, perm=[0, 3, 1, 2])
        y = g.Relu(g.Conv(y, rng.normal(size=(3, 3, 3, 3)).astype(np.float32), pads=[1, 1, 1, 1]))
        y = g.Transpose(y, perm=[0, 2, 3, 1])
    g.output(y, "y")
    shared = g.model()
    sample = rng.normal(size=(2, 6, 6, 3)).astype(np.float32)
    wanted = run_ort(ir.serde.serialize_model(shared), {"x": sample})[0]
    path = tmp_path / "m.onnx"
    backend.write(shared, path, "onnx", Options(), Report("test"))
    assert [n.op_type for n in onnx.load(path).graph.node].count("Transpose") == 2
    assert_same(run_ort(path, {"x": sample})[0], wanted)


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_file_is_what_protobuf_writes(tmp_path: Path) -> None:
    proto = network()
    path = written(proto, tmp_path / "m.onnx")
    other = backend.to_proto(read(proto), Options())
    loaded = onnx.load(path)
    for saved, expected in zip(
        loaded.graph.initializer, sorted(other.graph.initializer, key=lambda t: t.name == "w"), strict=True
    ):
        assert np.array_equal(onnx.numpy_helper.to_array(saved), onnx.numpy_helper.to_array(expected))
    assert [n.SerializeToString() for n in loaded.graph.node] == [n.SerializeToString() for n in other.graph.node]
    assert path.read_bytes() == written(proto, tmp_path / "again.onnx").read_bytes()


def test_external_data(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5, 8)).astype(np.float32)
    wanted = run_ort(network(), {"x": x})[0]
    path = tmp_path / "m.onnx"
    for _ in range(2):
        shared = read(network())
        report = Report("test")
        write_model(shared, path, report, limit=1000)
        onnx.checker.check_model(str(path))
        data = tmp_path / "m.onnx.data"
        assert data.stat().st_size == 7 * 600 * 4
        assert path.stat().st_size < 6000
        assert report.notes == ["the weights are in m.onnx.data, which has to stay beside m.onnx"]
        assert_same(run_ort(path, {"x": x})[0], wanted)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    again = tmp_path / "again.onnx"
    written(path, again)
    assert_same(run_ort(again, {"x": x})[0], wanted)


def test_dtypes_are_kept(tmp_path: Path) -> None:
    for dtype in (np.float16, np.float64, np.int32, np.int64, np.uint8, np.bool_):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        constant = array("c", np.arange(6000) % 2, dtype)
        proto = model(
            [helper.make_node("Concat", ["x", "c"], ["y"], axis=0)],
            [info("x", ["n"], kind)],
            [info("y", ["m"], kind)],
            [constant],
        )
        path = written(proto, tmp_path / "m.onnx")
        x = np.ones(3, dtype)
        assert_same(run_ort(path, {"x": x})[0], np.concatenate([x, onnx.numpy_helper.to_array(constant)]))


def test_a_large_weight_in_a_subgraph_moves_out(tmp_path: Path) -> None:
    w = array("w", np.random.default_rng(0).normal(size=(40, 40)))
    body = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["b"])], "then", [], [info("b", [2, 40])], [w])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "else", [], [info("n", [2, 40])])
    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)],
        [info("c", [], onnx.TensorProto.BOOL), info("x", [2, 40])],
        [info("y", [2, 40])],
    )
    x = np.random.default_rng(1).normal(size=(2, 40)).astype(np.float32)
    path = written(proto, tmp_path / "m.onnx")
    for flag in (True, False):
        feeds = {"c": np.array(flag), "x": x}
        assert_same(run_ort(path, feeds)[0], run_ort(proto, feeds)[0])
    assert len(onnx.load(path).graph.initializer) == 1


@pytest.mark.long
def test_three_gigabytes_take_little_memory(tmp_path: Path) -> None:
    """A 3 GB model of zeros (sparse files) is read and written with external data, and never held in memory."""
    program = """
import resource, sys, numpy as np, onnx
from pathlib import Path
from onnx import helper
from convert.backends import onnx as backend
from convert.frontends import onnx as frontend
from convert.request.options import Options
from convert.outcome.report import Report
from convert.request.source import Source
folder = Path(sys.argv[1])
with open(folder / "w.bin", "wb") as stream:
    stream.truncate(3 << 30)
tensors = []
for i in range(12):
    t = onnx.TensorProto(name=f"w{i}", data_type=1, dims=[8192, 8192], data_location=1)
    for key, value in (("location", "w.bin"), ("offset", i << 28), ("length", 1 << 28)):
        t.external_data.add(key=key, value=str(value))
    tensors.append(t)
names = ["x", *(f"h{i}" for i in range(1, 12)), "y"]
nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(12)]
f = helper.make_tensor_value_info
graph = helper.make_graph(nodes, "g", [f("x", 1, ["n", 8192])], [f("y", 1, ["n", 8192])], tensors)
(folder / "m.onnx").write_bytes(
    helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = frontend.read(Source("onnx", folder / "m.onnx"), Options(), Report("t"))
backend.write(model, folder / "out.onnx", "onnx", Options(), Report("t"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    grown = int(subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True).stdout)
    assert (tmp_path / "out.onnx.data").stat().st_size == 3 << 30
    # One tensor of 256 MB at a time, memory-mapped and as bytes.
    assert grown < 1200 * 1024, f"{grown} kB"
    assert resource.RLIMIT_AS


def test_weights_that_only_a_removed_node_reads_are_left_out() -> None:
    """onnxruntime warns of unused weights; TensorFlow's TensorArrays left some beside their loops."""
    from convert.backends.onnx.lower import drop_unused_weights

    x, w = ir.Value(name="x"), ir.Value(name="w", const_value=ir.tensor(np.ones(2, np.float32)))
    removed, kept = (ir.Node("", op, [x, w][:n], name=op) for op, n in (("Add", 2), ("Relu", 1)))
    graph = ir.Graph([x], kept.outputs, nodes=[removed, kept], initializers=[w], opset_imports={"": 20})
    graph.remove(removed)
    assert w.uses()
    assert drop_unused_weights(ir.Model(graph, ir_version=10))
    assert not graph.initializers
