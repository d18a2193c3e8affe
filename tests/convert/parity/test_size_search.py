"""Dims of unknown size: sizes at which the source runs are found; if there are none, the error says what to give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from convert.cli import cli
from convert.graph import Graph
from convert.outcome.report import Report
from convert.parity.inputs.feeds import free_dims
from convert.parity.inputs.size_search import _variants, suggested_sizes
from convert.request.options import Options
from convert.request.source import Source
from tests.support.marks import slow_but

pytestmark = pytest.mark.not_core  # every test starts programs with children, which takes seconds

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args])


def weight(*dims: int) -> np.ndarray:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32) * np.float32(0.2)


def save(
    path: Path, nodes: Sequence[onnx.NodeProto], inputs: dict[str, Sequence[Any]], weights: dict[str, np.ndarray],
    dtypes: Sequence[int] = (),
) -> Path:  # fmt: skip
    kinds = [*dtypes, *[FLOAT] * len(inputs)]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info(n, k, d) for k, (n, d) in zip(kinds, inputs.items(), strict=False)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def flattened(path: Path, dims: Sequence[Any] = ("n", 3, "h", "w")) -> Path:
    """Return a convolution of stride 2, a pool of 2, and a dense layer, for maps of 7 × 7: inputs must be 28 × 28."""
    nodes = [node("Conv", ["x", "k"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["p"], ["f"]),
             node("Gemm", ["f", "d"], ["y"])]  # fmt: skip
    return save(path, nodes, {"x": dims}, {"k": weight(8, 3, 3, 3), "d": weight(8 * 49, 10)})


def halved(path: Path, dims: Sequence[Any] = ("n", 2, "h", "w")) -> Path:
    """Return five poolings and five upsamplings joined with the inputs: sizes must be multiples of 32."""
    nodes = [node("MaxPool", ["x"], ["p0"], kernel_shape=[32, 32], strides=[32, 32]),
             node("Resize", ["p0", "", "by"], ["u"], mode="nearest"), node("Add", ["x", "u"], ["y"])]  # fmt: skip
    return save(path, nodes, {"x": dims}, {"by": np.array([1, 1, 32, 32], np.float32)})


def positions(path: Path, dims: Sequence[Any] = ("n", "t")) -> Path:
    """Return words plus a table of 77 positions."""
    nodes = [node("Gather", ["words", "x"], ["e"]), node("Add", ["e", "table"], ["y"])]
    return save(path, nodes, {"x": dims}, {"words": weight(20, 8), "table": weight(1, 77, 8)}, [INT64])


def window(path: Path, dims: Sequence[Any] = ("n", 1, "time")) -> Path:
    """A fixed reshape of 400 samples."""
    nodes = [node("Reshape", ["x", "frames"], ["f"]), node("MatMul", ["f", "m"], ["y"])]
    return save(path, nodes, {"x": dims}, {"frames": np.array([-1, 20, 20]), "m": weight(20, 5)})


def product(path: Path, dims: Sequence[Any] = ("?", "?")) -> Path:
    """Return a product with a matrix of 6 columns and one of 9: two different sizes, although the file gives both the
    same name.
    """
    nodes = [
        node("MatMul", ["a", "p"], ["b"]),
        node("MatMul", ["c", "q"], ["d"]),
        node("Concat", ["b", "d"], ["y"], axis=0),
    ]
    return save(path, nodes, {"a": dims, "c": dims}, {"p": weight(6, 4), "q": weight(9, 4)})


NETWORKS = {"flattened": flattened, "halved": halved, "positions": positions, "window": window, "product": product}


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(NETWORKS, "window"))
def test_sizes_at_which_the_source_runs_are_found(name: str, tmp_path: Path) -> None:
    path = NETWORKS[name](tmp_path / "m.onnx")
    done = invoke("verify", path, path, "--json")
    told = json.loads(done.stdout)
    assert told["verdict"]["status"] == "PASS", done.stdout
    assert any(n["code"] == "limited-sizes" for n in told["verdict"]["notes"])
    assert len(told["verdict"]["feeds"]) == 3
    if name == "halved":  # more than one size, because more than one is right
        assert len({f.partition("h=")[2].split(",")[0] for f in told["verdict"]["feeds"]}) > 1


@pytest.mark.slow
def test_where_none_is_found_the_error_names_the_input(tmp_path: Path) -> None:
    """Nothing suggests the size 1,229, so the error names the sizes that were tried and the option."""
    nodes = [node("ReduceSum", ["x", "axis"], ["s"]), node("Shape", ["x"], ["d"]), node("Gather", ["d", "one"], ["n"]),
             node("Sub", ["n", "wanted"], ["off"]), node("Mul", ["off", "off"], ["square"]),
             node("Neg", ["square"], ["less"]), node("Gather", ["two", "less"], ["t"]),
             node("Cast", ["t"], ["f"], to=FLOAT), node("Add", ["s", "f"], ["y"])]  # fmt: skip
    weights = {"axis": np.array([1]), "one": np.array([1]), "wanted": np.array([1229]), "two": np.array([0])}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "?"]}, weights)
    done = invoke("verify", path, path)
    assert done.exit_code == 1
    assert "it runs at none of the sizes that were tried: n=2, x.1=16; " in done.stderr
    assert "x.1=224" in done.stderr or "more" in done.stderr
    assert "--input 'x:float32[SIZE,SIZE]'" in done.stderr
    assert invoke("verify", path, path, "--input", "x:float32[n,1229]").exit_code == 0


def test_inputs_of_the_users_are_not_searched_for(tmp_path: Path) -> None:
    path = flattened(tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 3, 16, 16), np.float32))
    done = invoke("verify", path, path, "--inputs", tmp_path / "x.npz")
    assert done.exit_code == 1
    assert "tried" not in done.stderr


@pytest.mark.parametrize("name", ["?", "None", "-1", "", "unk__7", "unknown"])
def test_what_stands_for_an_unknown_size_is_no_name(name: str, tmp_path: Path) -> None:
    """Each is a separate size, even if an intermediate value has the same placeholder."""
    from convert import plugin

    path = product(tmp_path / "m.onnx", (name, name))
    proto = onnx.load(path)
    proto.graph.value_info.append(helper.make_tensor_value_info("b", FLOAT, [name, 4]))
    graph = plugin.frontends()["onnx"].read(Source("onnx-object", model=proto), Options(), Report("read"))
    assert list(free_dims(graph)) == ["a.0", "a.1", "c.0", "c.1"]
    symbols = {d.value for n in graph.graph for v in n.outputs for d in v.shape or () if not isinstance(d, int)}
    assert name not in symbols
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == name


def test_constants_of_the_graph_are_what_is_tried_first(tmp_path: Path) -> None:
    from convert import plugin

    expected = {"flattened": 28, "positions": 77, "window": 400, "product": 9}
    for name, size in expected.items():
        source = Source("onnx", NETWORKS[name](tmp_path / f"{name}.onnx"))
        assert size in suggested_sizes(plugin.frontends()["onnx"].read(source, Options(), Report("read"))), name


def test_which_sizes_near_by_are_tried() -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", ir.DataType.FLOAT, ["n", "t"])), "y")
    found = list(_variants(g.model(), {"n": 3, "t": 40}))
    assert found[0] == {"n": 1, "t": 40}
    assert [s["t"] for s in found if s["n"] == 3 and s["t"] != 40] == [41, 80, 48, 72, 20] * 2
    assert {"n": 35, "t": 72} in found
