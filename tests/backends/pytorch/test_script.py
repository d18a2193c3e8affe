"""TorchScript archives: names, sizes, bytes, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from convert.backends.pytorch import operators
from convert.backends.pytorch.writer.script import script_of
from torch.export import Dim

import convert
from convert.errors import Unsupported
from tests.backends.pytorch.test_backend import FIXTURES, perceptron

SIZES = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 4] X, int64 count) => (float[a, b] y, float[c, 4] z) {
    shape = Shape (X)
    zero, one, two = Split <num_outputs = 3> (const)
    first = Gather (shape, zero)
    turned = Concat <axis = 0> (minus, first)
    y = Reshape (X, turned)
    row = Slice (X, zero, two)
    last = Reshape (count, one_dim)
    tiles = Concat <axis = 0> (last, one)
    z = Tile (row, tiles)
}"""


def sizes_model() -> onnx.ModelProto:
    """Return a model in which sizes of an input, and a number computed from one, determine shapes."""
    model = onnx.parser.parse_model(SIZES)
    constants = {"const": [0, 1, 2], "minus": [-1], "one_dim": [1]}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(v), n) for n, v in constants.items())
    return model


def loaded(model: onnx.ModelProto, folder: Path) -> torch.jit.ScriptModule:
    convert.convert(model, "torch-script", folder / "m.pt", verify=False)
    return torch.jit.load(folder / "m.pt")


def test_names_dims_and_weights(tmp_path: Path) -> None:
    script = loaded(perceptron(), tmp_path)
    assert {n for n, _ in script.named_parameters()} == {"body.0.weight", "body.0.bias", "head.kernel"}
    assert [a.name for a in script.forward.schema.arguments[1:]] == ["X"]
    for batch in (1, 5):
        ((name, y),) = script(X=torch.zeros(batch, 4)).items()
        assert (name, tuple(y.shape)) == ("y.1", (batch, 2))
    y.sum().backward()
    assert all(p.grad is not None for p in script.parameters())


def test_sizes_and_numbers_are_not_those_of_the_capture(tmp_path: Path) -> None:
    script = loaded(sizes_model(), tmp_path)
    for n, count in ((1, 2), (2, 1), (7, 3)):
        outputs = script(torch.arange(4.0 * n).reshape(n, 4), torch.tensor(count))
        assert (outputs["y"].shape, outputs["z"].shape) == ((4, n), (min(n, 2) * count, 4))


@pytest.mark.slow
def test_the_same_bytes_whatever_was_scripted_before(tmp_path: Path) -> None:
    loaded(perceptron(), tmp_path)
    first = (tmp_path / "m.pt").read_bytes()
    torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    convert.convert(FIXTURES / "mnist_cnn.onnx", "torch-script", tmp_path / "other.pt", verify=False)
    (tmp_path / "again").mkdir()
    loaded(perceptron(), tmp_path / "again")
    assert (tmp_path / "again" / "m.pt").read_bytes() == first
    with zipfile.ZipFile(tmp_path / "again" / "m.pt") as archive:  # the first class of a process has no number
        assert "m/code/__torch__/torch/fx/graph_module.py" in {n.replace("archive/", "m/") for n in archive.namelist()}
    assert b"eval_with_key" not in first


def test_no_name_ends_a_line_of_code(tmp_path: Path) -> None:
    model = perceptron()
    weight = model.graph.initializer[0]
    old, weight.name = weight.name, "a\u2028b\u2029c\x85d"
    for node in model.graph.node:
        node.input[:] = [weight.name if name == old else name for name in node.input]
    assert "a_b_c_d" in {n for n, _ in loaded(model, tmp_path).named_parameters()}


@pytest.mark.slow
def test_a_network_is_verified(tmp_path: Path) -> None:
    report = convert.convert(FIXTURES / "mnist_cnn.onnx", "torch-script", tmp_path / "m.pt")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason


def test_a_branch_that_the_run_decides_is_refused(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <then_branch = yes () => (float[2] a) { a = Neg (x) },
                        else_branch = no () => (float[2] b) { b = Abs (x) }>
        }"""
    )
    with pytest.raises(Unsupported, match="TorchScript has no form for cond"):
        loaded(model, tmp_path)
    with pytest.raises(Unsupported, match="TorchScript has no form for cond"):
        convert.convert(model, "torch-script", tmp_path / "m.pt", dry_run=True)
    convert.convert(model, "torch", tmp_path / "m.pt2", dry_run=True)
    assert not list(tmp_path.iterdir())
    convert.convert(model, "torch", tmp_path / "m.pt2", verify=False)  # both branches read x, so it is one operand
    program, x = torch.export.load(tmp_path / "m.pt2").module(), torch.tensor([1.0, -2.0])
    assert [program(torch.tensor(c), x)["y"].tolist() for c in (True, False)] == [[-1, 2], [1, 2]]


def test_what_the_run_decides_is_declared_of_scripts_alone() -> None:
    programs, scripts = ({o.name: o for o in operators(form)} for form in ("torch", "torch-script"))
    assert scripts["NonMaxSuppression"].gap
    assert not programs["NonMaxSuppression"].gap
    assert "only the run decides" in scripts["Scan"].limit
    assert scripts["If"].limit.startswith(programs["If"].limit)
    assert scripts["Conv"] == programs["Conv"]


class _Branching(torch.nn.Module):
    """Its captured branch is valid for up to four rows."""

    def forward(self, rows: torch.Tensor, other: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": (rows * 2 if rows.shape[0] <= 4 else rows * 3).reshape(-1, 3), "z": torch.cat([rows, other], 1)}


def test_conditions_on_sizes_are_checked_as_the_program_checks_them() -> None:
    """A script without these checks would silently return the results of the other path."""
    dims = ({0: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO})
    program = torch.export.export(_Branching(), (torch.randn(3, 2), torch.randn(3, 5)), dynamic_shapes=dims)
    script = script_of(program)
    y = script(torch.ones(3, 2), torch.ones(3, 4))["y"]
    assert torch.equal(y, torch.full((2, 3), 2.0))
    for given in ((torch.ones(6, 2), torch.ones(6, 4)), (torch.ones(3, 2), torch.ones(2, 4))):
        with pytest.raises(AssertionError):
            program.module()(*given)
        with pytest.raises(torch.jit.Error, match="does not hold for these sizes"):
            script(*given)


@pytest.mark.parametrize("name", ["weiß.w", "፩"])
def test_names_that_pytorch_would_not_read(name: str, tmp_path: Path) -> None:
    """PyTorch 2.13 writes such a name with escapes of its own, and fails when it loads them."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[n, 3] x) => (float[n, 2] y) { y = MatMul (x, w) }'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), name))
    model.graph.node[0].input[1] = name
    with pytest.raises(Unsupported, match="a weight's name beyond ASCII"):
        convert.convert(model, "torch-script", tmp_path / "m.ts", verify=False)
    assert not list(tmp_path.iterdir())
