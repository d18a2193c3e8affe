"""`--check-passes`: a pass that breaks the graph is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from click.testing import CliRunner

import convert
from convert.cli import cli
from convert.errors import ConvertError
from convert.graph import Graph
from convert.passes import CHECK_VARIABLE, Pass, run_passes
from convert.passes.check import PassCheck
from convert.request.options import Options

MNIST = Path(__file__).resolve().parents[3] / "fixtures" / "mnist_cnn.onnx"


def small_model() -> ir.Model:
    """Return y = relu(x + 1) with a dynamic batch, and an If that returns one of two values."""
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ("batch", 3))
    g.output(g.Relu(g.Add(x, np.ones(3, np.float32))), "y")
    then, other = g.body(), g.body()
    then.output(then.Abs(x), "then")
    other.output(other.Neg(x), "other")
    chosen = g.If(g.input("c", ir.DataType.BOOL, ()), then_branch=then, else_branch=other)
    g.output(g.facts(chosen, ir.DataType.FLOAT, ("batch", 3)), "z")
    return g.model()


def node(model: ir.Model, operator: str) -> ir.Node:
    return next(n for n in model.graph.all_nodes() if n.op_type == operator)


def widen_output(model: ir.Model) -> bool:
    node(model, "Add").outputs[0].shape = ir.Shape(["batch", 4])
    return True


def lose_rank(model: ir.Model) -> bool:
    node(model, "Relu").outputs[0].shape = ir.Shape([3])
    return True


def change_dtype(model: ir.Model) -> bool:
    node(model, "Relu").outputs[0].type = ir.TensorType(ir.DataType.DOUBLE)
    return True


def read_too_early(model: ir.Model) -> bool:
    add = node(model, "Add")
    model.graph.remove(add)
    model.graph.append(add)
    return True


def read_from_a_branch(model: ir.Model) -> bool:
    node(model, "Relu").replace_input_with(0, node(model, "Neg").outputs[0])
    return True


def misname_attribute(model: ir.Model) -> bool:
    node(model, "Relu").attributes.add(ir.AttrFloat32("alpha", 0.5))
    return True


def misname_attribute_in_a_branch(model: ir.Model) -> bool:
    node(model, "Neg").attributes.add(ir.AttrFloat32("alpha", 0.5))
    return True


def lose_input(model: ir.Model) -> bool:
    add = node(model, "Add")
    add.resize_inputs(1)
    return True


def lose_branch(model: ir.Model) -> bool:
    node(model, "If").attributes.pop("else_branch")
    return True


def misfit_constant(model: ir.Model) -> bool:
    add = node(model, "Add")
    add.replace_input_with(1, _constant(model, np.ones(2, np.float32)))
    return True


def misdeclare_constant(model: ir.Model) -> bool:
    node(model, "Add").inputs[1].const_value = ir.tensor(np.ones(3))  # type: ignore[union-attr]
    return True


def rename_output(model: ir.Model) -> bool:
    model.graph.outputs[0].name = "renamed"
    return False  # found, although the pass denies a change


def lose_output(model: ir.Model) -> bool:
    model.graph.outputs[0] = ir.Value(name="y")
    return True


def _constant(model: ir.Model, content: np.ndarray) -> ir.Value:
    value = ir.Value(
        name="k", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(content.shape), const_value=ir.tensor(content)
    )
    model.graph.register_initializer(value)
    return value


def keep(model: ir.Model) -> bool:
    return False


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (widen_output, "Add: output 0 is float32[?,3], and declared as float32[?,4]"),
        (lose_rank, "Relu: output 0 is float32[?,3], and declared as float32[3]"),
        (change_dtype, "Relu: output 0 is float32[?,3], and declared as float64[?,3]"),
        (read_too_early, "Relu: reads a value before it is computed ('Add_1')"),
        (read_from_a_branch, "Relu: reads a value before it is computed ('other')"),
        (misname_attribute, "Relu: Unrecognized attribute: alpha"),
        (misname_attribute_in_a_branch, "Neg: Unrecognized attribute: alpha"),
        (lose_input, "Add: "),
        (lose_branch, "If: Required attribute 'else_branch' is missing"),
        (misfit_constant, "Add: Add does not accept these inputs"),
        (misdeclare_constant, "constant 'const': is float64[3], and declared as float32[3]"),
        (rename_output, "inputs and outputs were (['x', 'c'], ['y', 'z']), and are (['x', 'c'], ['renamed', 'z'])"),
        (lose_output, "nothing computes the output 'y'"),
    ],
)
def test_a_pass_that_breaks_the_graph_is_named(broken: Pass, reason: str) -> None:
    with pytest.raises(ConvertError) as caught:
        run_passes(small_model(), (keep, broken, keep), Options(check_passes=True))
    assert caught.value.message.startswith(f"pass {broken.__name__} broke the graph: {reason}")


def test_without_the_option_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHECK_VARIABLE)
    assert run_passes(small_model(), (widen_output,), Options())
    assert run_passes(small_model(), (widen_output,))


def test_the_environment_checks_nested_passes() -> None:
    """The tests of the project always run so (`tests/conftest.py`)."""

    def outer(model: ir.Model) -> bool:
        return run_passes(model, (keep, widen_output))

    with pytest.raises(ConvertError, match=r"^pass widen_output broke the graph"):
        run_passes(small_model(), (outer,))


def test_a_defect_of_the_source_is_no_pass_s_fault() -> None:
    model = small_model()
    widen_output(model)
    assert not run_passes(model, (keep,), Options(check_passes=True))
    with pytest.raises(ConvertError, match=r"^pass change_dtype broke the graph: Relu: "):
        run_passes(model, (keep, change_dtype), Options(check_passes=True))


def test_a_broken_pass_of_a_backend_ends_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHECK_VARIABLE)
    monkeypatch.setattr("convert.backends.onnx.lower.PASSES", (misname_relu,))
    output = tmp_path / "m.onnx"
    with pytest.raises(ConvertError, match=r"^pass misname_relu broke the graph: Relu"):
        convert.convert(MNIST, "onnx", output, verify=False, check_passes=True)
    result = CliRunner().invoke(cli, [str(MNIST), "-o", str(output), "--no-verify", "--check-passes"])
    assert result.exit_code == 1
    assert "pass misname_relu broke the graph: Relu" in result.stderr
    assert "--dump-passes" in result.stderr
    assert not output.exists()


def misname_relu(model: ir.Model) -> bool:
    for each in model.graph:
        if each.op_type == "Relu":
            each.attributes.add(ir.AttrFloat32("alpha", 0.5))
    return True


def test_a_node_of_equal_content_is_checked_by_its_own_declaration() -> None:
    """The defects of one node serve another only if dtypes, shapes, attributes and small constants are equal."""
    for axes, fits in (([1], True), ([0], False), ([1], True), ([-1], True), ([0], False)):
        g = Graph()
        g.output(g.ReduceSum(g.input("x", ir.DataType.FLOAT, ("batch", 3)), np.array(axes), keepdims=1), "y")
        model = g.model()
        check = PassCheck(model)
        node(model, "ReduceSum").outputs[0].shape = ir.Shape([None, 1])
        if fits:
            check.after("declare_ones")
            continue
        with pytest.raises(ConvertError, match="declare_ones broke the graph"):
            check.after("declare_ones")
