"""`--reduce`: the smallest part that still fails, for defects planted in a rule, in a writer and in files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.shape_inference
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from convert.backends.caffe2 import onnx_op
from onnx import numpy_helper

import convert
from convert import plugin
from convert.cli import cli
from convert.errors import ParityError
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, PASS, Reduced
from convert.parity.locate.reduced_files import reduced_files
from convert.parity.locate.shrink import Shrinking
from convert.parity.locate.subgraph import Cutter
from convert.parity.method import VerifyMethod
from convert.request.source import Source

pytestmark = pytest.mark.not_core  # every test starts programs with children, which takes seconds

NET = """<ir_version: 10, opset_import: ["": 20]>
net (float[batch, 3, 8, 8] x) => (float[batch, 5] y)
<int64[2] axes = {2, 3}>
{
  c1 = Conv <pads: ints = [1, 1, 1, 1]> (x, w1, b1)
  r1 = Relu (c1)
  c2 = Conv <pads: ints = [1, 1, 1, 1]> (r1, w2)
  s2 = Softplus (c2)
  a2 = Add (r1, s2)
  m = ReduceMean <keepdims: int = 0> (a2, axes)
  t = Tanh (m)
  y = MatMul (t, w3)
}"""
NODES = 8


@pytest.fixture
def net(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model(NET)
    random = np.random.default_rng(3)
    for name, shape in {"w1": (24, 3, 3, 3), "b1": (24,), "w2": (24, 24, 3, 3), "w3": (24, 5)}.items():
        array = (random.standard_normal(shape) * 0.1).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    for node in model.graph.node:
        node.name = f"node_{node.output[0]}"
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    return path


def reducing(path: Path) -> VerifyMethod:
    return VerifyMethod(reduce=path)


def plant_rule(monkeypatch: pytest.MonkeyPatch, operator: str, rule: Callable[..., Any]) -> None:
    monkeypatch.setitem(onnx_op.entries, operator, replace(onnx_op.entries[operator], rule=rule))


def plant_writer(monkeypatch: pytest.MonkeyPatch, change: Callable[[ir.Model], None]) -> None:
    """Make the Caffe2 backend change a model before it writes it."""
    backend = plugin.backend_for("caffe2")
    write = backend.write

    def wrong(model: ir.Model, *args: Any) -> None:
        change(model)
        write(model, *args)

    monkeypatch.setattr(backend, "write", wrong)


def shift_softplus(net: Any, x: Any) -> Any:
    return net.Mul(net.Softplus(x), net.const(1.01))


def spoil_bias_before_relu(model: ir.Model) -> None:
    """A defective pass that changes the graph only if a Relu follows a Conv with a bias."""
    for node in model.graph:
        if node.op_type == "Conv" and len(node.inputs) == 3 and node.inputs[2] is not None:
            bias, users = node.inputs[2], [user.op_type for user, _ in node.outputs[0].uses()]
            if users == ["Relu"] and bias.const_value is not None:
                bias.const_value = ir.tensor(bias.const_value.numpy() * np.float32(1.1), name=bias.name)


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], list[str]]] = {
    "a rule": (lambda patch: plant_rule(patch, "Softplus", shift_softplus), ["Softplus"]),
    "two nodes": (lambda patch: plant_writer(patch, spoil_bias_before_relu), ["Conv", "Relu"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", PLANTED)
def test_a_defect_of_the_backend_is_cut_out(
    what: str, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, operators = PLANTED[what]
    convert.convert(net, "caffe2", tmp_path / "right.caffe2", verify=False)
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(ParityError) as raised:
            convert.convert(net, "caffe2", tmp_path / "net.caffe2", method=reducing(tmp_path / "part.onnx"))
        part = onnx.load(tmp_path / "part.onnx")
        assert [node.op_type for node in part.graph.node] == operators
        assert "part.onnx" in raised.value.hint
        assert not (tmp_path / "net.caffe2").exists()
        arrays = dict(np.load(tmp_path / "part.npz"))
        with pytest.raises(ParityError):  # the claim is that this part fails by itself
            convert.convert(tmp_path / "part.onnx", "caffe2", tmp_path / "part.caffe2", inputs=arrays)
    report = convert.convert(tmp_path / "part.onnx", "caffe2", tmp_path / "part.caffe2", inputs=arrays)
    assert report.verdict is not None
    assert report.verdict.status == PASS  # the backend is at fault, not the part


def change_weight(model: onnx.ModelProto) -> None:
    weight = next(i for i in model.graph.initializer if i.name == "w2")
    array = numpy_helper.to_array(weight).copy()
    array.flat[5] += 0.5
    weight.CopyFrom(numpy_helper.from_array(array, "w2"))


def change_operator(model: onnx.ModelProto) -> None:
    next(n for n in model.graph.node if n.op_type == "Softplus").op_type = "Softsign"


def change_pads(model: onnx.ModelProto) -> None:
    """Change the target in two nodes: a Pad on the wrong sides, and a Conv without pads."""
    nodes = list(model.graph.node)
    place = next(i for i, n in enumerate(nodes) if n.name == "node_c2")
    del nodes[place].attribute[:]
    pads = numpy_helper.from_array(np.array([0, 0, 2, 1, 0, 0, 0, 1]), "pads")
    model.graph.initializer.append(pads)
    pad = onnx.helper.make_node("Pad", ["r1", "pads"], ["padded"], name="pad")
    nodes[place].input[0] = "padded"
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:place], pad, *nodes[place:]])


def rename_everything(model: onnx.ModelProto) -> None:
    """Return a changed operator in a file of another exporter, in which no inner value has the name that it has in the
    source.
    """
    change_operator(model)
    kept = {"x", "y"}
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [n if n in kept else f"other_{n}" for n in names]
    for weight in model.graph.initializer:
        weight.name = f"other_{weight.name}"


CHANGED = {
    change_weight: (["Conv"], ["Conv"]),
    change_operator: (["Softplus"], ["Softsign"]),
    change_pads: (["Conv"], ["Pad", "Conv"]),
    rename_everything: (["Softplus"], ["Softsign"]),
}


@pytest.mark.parametrize(
    "change",
    [pytest.param(c, marks=[pytest.mark.slow] * (c is not change_pads)) for c in CHANGED],
    ids=lambda change: change.__name__,
)
def test_a_change_of_a_file_is_cut_out_of_both(change: Callable[[Any], None], net: Path, tmp_path: Path) -> None:
    model = onnx.load(net)
    change(model)
    onnx.save(model, tmp_path / "changed.onnx")
    found = convert.verify(net, tmp_path / "changed.onnx", method=reducing(tmp_path / "part.onnx")).verdict
    assert found is not None
    assert found.status == FAIL
    assert isinstance(found.reduced, Reduced), found.reduced
    part, inputs, target = map(str, reduced_files(tmp_path / "part.onnx"))
    operators = tuple([n.op_type for n in onnx.load(file).graph.node] for file in (part, target))
    assert operators == CHANGED[change]
    assert (found.reduced.nodes, found.reduced.whole) == (1, NODES)
    again = convert.verify(part, target, inputs=dict(np.load(inputs))).verdict
    assert again is not None
    assert again.status == FAIL


@pytest.mark.slow
def test_a_target_that_does_not_run_is_reduced(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_rule(monkeypatch, "Tanh", lambda net, x: net.Conv(x, x, kernel=1))
    with pytest.raises(ParityError):
        convert.convert(net, "caffe2", tmp_path / "net.caffe2", method=reducing(tmp_path / "part.onnx"))
    assert [node.op_type for node in onnx.load(tmp_path / "part.onnx").graph.node] == ["Tanh"]


@pytest.mark.slow
def test_the_command_names_the_files_and_what_shows_it_again(net: Path, tmp_path: Path) -> None:
    model = onnx.load(net)
    change_operator(model)
    onnx.save(model, changed := tmp_path / "changed.onnx")
    result = CliRunner().invoke(cli, ["verify", str(net), str(changed), "--reduce", str(tmp_path / "part.onnx")])
    assert result.exit_code == 3
    assert f"reduced: 1 node of {NODES} (Softplus) by itself still fails" in result.stdout
    again = next(line for line in result.stdout.splitlines() if "again: " in line).partition("again: convert ")[2]
    assert CliRunner().invoke(cli, again.split()).exit_code == 3


def test_nothing_is_written_without_a_failure(net: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["verify", str(net), str(net), "--reduce", str(tmp_path / "part.onnx")])
    assert result.exit_code == 0, result.output
    assert not [path for path in reduced_files(tmp_path / "part.onnx") if path.exists()]


def test_a_model_is_never_replaced(net: Path, tmp_path: Path) -> None:
    before = net.read_bytes()
    result = CliRunner().invoke(cli, ["verify", "--reduce", str(net), str(net), str(net)])
    assert result.exit_code == 2
    assert net.read_bytes() == before
    result = CliRunner().invoke(cli, ["verify", str(net), str(net), "--reduce", str(tmp_path / "part.pt")])
    assert "part.onnx" in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_defect_of_the_reader_is_said_not_to_reduce(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is misread, so every part of it is converted correctly."""
    frontend = plugin.frontend_for(Source("onnx", net))
    read = frontend.read

    def misread(source: Source, options: Any, report: Report) -> ir.Model:
        model = read(source, options, report)
        next(n for n in model.graph if n.op_type == "Softplus").op_type = "Softsign"
        return model

    monkeypatch.setattr(frontend, "read", misread)
    with pytest.raises(ParityError) as raised:
        convert.convert(net, "caffe2", tmp_path / "net.caffe2", method=reducing(tmp_path / "part.onnx"))
    assert "not reduced" in raised.value.hint
    assert not (tmp_path / "part.onnx").exists()


def shrinking(fails: Callable[[Any], bool], most: int = 200) -> Shrinking[int]:
    return Shrinking(fails, lambda items: sorted(set(items)), most, 60.0)


@pytest.mark.parametrize("needed", [{0}, {17}, {39}, {3, 4}, {2, 30}, {0, 20, 39}, set(range(5, 15))], ids=str)
def test_shrinking_leaves_what_is_needed(needed: set[int]) -> None:
    search = shrinking(lambda items: needed <= set(items))
    assert search.smallest(range(40)) == sorted(needed)
    assert not search.ended_early


def test_shrinking_ends_with_a_set_that_fails() -> None:
    search = shrinking(lambda items: {2, 30} <= set(items), most=5)
    assert {2, 30} <= set(search.smallest(range(40)))
    assert (search.trials, search.ended_early) == (5, True)


def test_a_guess_that_fails_saves_trials() -> None:
    search = shrinking(lambda items: 17 in items)
    assert search.smallest(range(40), [[17]]) == [17]
    assert search.trials == 1


def test_sizes_and_constants_are_made_in_the_part() -> None:
    """A Reshape is cut with the Shape that its sizes come from, because sizes as an input would make its dims
    unknown.
    """
    text = """<ir_version: 10, opset_import: ["": 23]>
    net (float[n, 4] x) => (float[n, 2, 2] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[2] two = {2, 2}>
    { a = Relu (x)  b = Tanh (a)  s = Shape (a)  n = Slice (s, zero, one)  d = Concat <axis: int = 0> (n, two)
      y = Reshape (b, d) }"""
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    cutter = Cutter(ir.from_proto(model))
    nodes = cutter.completed(cutter.nodes[-1:])
    assert [node.op_type for node in nodes] == ["Shape", "Slice", "Concat", "Reshape"]
    inputs, outputs = cutter.ends(nodes)
    assert ([v.name for v in inputs], [v.name for v in outputs]) == (["a", "b"], ["y"])
    part = cutter.part(inputs, outputs, nodes)
    assert sorted(str(name) for name in part.graph.initializers) == ["one", "two", "zero"]
