"""Opsets 7 and 8 are written in a form that old readers accept and today's readers understand in the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import convert
from tests.support.run_targets import assert_close


class Branch(nn.Module):
    """Weights inside branches: shared ones, and ones of a single branch."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.one(x) + 1, lambda x: self.other(x) * 3, (x,))


class Function(nn.Module):
    """A module that returns the first result of a function."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.function(x)
        return y[0] if isinstance(y, tuple) else y


def nodes_of(proto: onnx.ModelProto, operator: str) -> list[onnx.NodeProto]:
    return [n for n in proto.graph.node if n.op_type == operator]


def attributes(node: onnx.NodeProto) -> dict[str, list[int]]:
    return {a.name: list(a.ints) for a in node.attribute}


def no_pads(proto: onnx.ModelProto) -> bool:
    return all(not any(attributes(n).get("pads", ())) for n in nodes_of(proto, "ConvTranspose"))


def one_axis(proto: onnx.ModelProto) -> bool:
    """Assert that each Slice has one axis, and no end that a reader could compare with another tensor's size."""
    found = [attributes(n) for n in nodes_of(proto, "Slice")]
    return bool(found) and all(len(a["axes"]) == 1 and not 0 < a["ends"][0] < 2**31 - 1 for a in found)


def plain_convs(proto: onnx.ModelProto) -> bool:
    found = nodes_of(proto, "Conv")
    return all(set(attributes(n).get("dilations", [1])) == {1} for n in found)


def no_bias_along_one_dim(proto: onnx.ModelProto) -> bool:
    return all(len(n.input) == 2 for n in nodes_of(proto, "Conv"))


def none(operator: str) -> Callable[[onnx.ModelProto], bool]:
    return lambda proto: not nodes_of(proto, operator)


def two_dims(proto: onnx.ModelProto) -> bool:
    """A product with a weight comes right after a Reshape."""
    made = {name: n for n in proto.graph.node for name in n.output}
    return all(made[n.input[0]].op_type == "Reshape" for n in nodes_of(proto, "MatMul"))


def full_numbers(proto: onnx.ModelProto) -> bool:
    content = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    return all((content[n.input[1]] > 0).all() for n in nodes_of(proto, "Reshape"))


ROWS: dict[str, tuple[nn.Module, tuple[int, ...], str, tuple[int, ...], Callable[[onnx.ModelProto], bool]]] = {
    "product": (nn.Linear(4, 3, bias=False), (3, 5, 4), "batch,5,4", (7, 8), two_dims),
    "PRelu": (nn.PReLU(3, 0.3), (2, 3, 4, 5), "batch,3,4,5", (7, 8), none("PRelu")),
    "transposed": (nn.ConvTranspose2d(2, 3, 4, 2, 1), (2, 2, 5, 6), "batch,2,5,6", (7, 8), no_pads),
    "transposed, uneven": (nn.ConvTranspose2d(2, 3, (3, 4), 2, (1, 2), (1, 0)), (2, 2, 5, 6), "batch,2,h,w", (7, 8),
                           no_pads),
    "transposed, in time": (nn.ConvTranspose1d(2, 4, 5, 3, 2, 2, groups=2), (2, 2, 7), "batch,2,7", (7, 8), no_pads),
    "slices": (Function(lambda x: x[:, 1:4, 2:] + x[:, -3:, :-2]), (2, 6, 7), "batch,6,7", (7, 8), one_axis),
    "dilated": (nn.Conv2d(2, 4, (3, 2), 1, (2, 0), (2, 3), groups=2), (2, 2, 9, 8), "batch,2,h,w", (7,), plain_convs),
    "along one dim": (nn.Conv1d(2, 3, 3, dilation=2), (2, 2, 9), "batch,2,9", (7,), no_bias_along_one_dim),
    "instances": (nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 5), "batch,3,h,w", (7,), none("InstanceNormalization")),
    "reshapes": (nn.PixelShuffle(3), (2, 9, 4, 5), "2,9,4,5", (7,), full_numbers),
    "branches": (Branch(), (2, 4), "batch,4", (7, 8), lambda proto: True),
    "gelu": (nn.GELU(), (2, 9), "batch,9", (7, 8), none("Erf")),
    "steps": (Function(nn.LSTM(4, 3, bidirectional=True, batch_first=True)), (2, 5, 4), "batch,5,4", (7, 8),
              none("ConstantOfShape")),
    "normal": (nn.LayerNorm(9), (2, 9), "batch,9", (7, 8), lambda proto: True),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("opset", [7, 8])
@pytest.mark.parametrize("row", ROWS)
def test_forms(row: str, opset: int, tmp_path: Path) -> None:
    """The form is written at its opsets only, and onnxruntime computes PyTorch's numbers from it."""
    module, shape, spec, opsets, holds = ROWS[row]
    torch.manual_seed(3)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    path = tmp_path / "m.onnx"
    convert.convert(module.eval(), "onnx", path, inputs=f"float32[{spec}]", opset=opset)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    if opset in opsets:
        assert holds(proto)
    session = onnxruntime.InferenceSession(str(path))
    x = torch.randn(shape)
    with torch.no_grad():
        want, true = module(x), module.double()(x.double())
        module.float()
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert_close({"y": want.numpy()}, {"y": got}, {"y": true.numpy()})


@pytest.mark.slow
@pytest.mark.parametrize(("opset", "version"), [(7, 3), (8, 3), (9, 4)])
@pytest.mark.parametrize("in_memory", [False, True])
def test_weights_are_inputs_before_ir_version_4(opset: int, version: int, in_memory: bool, tmp_path: Path) -> None:
    """Weights of every size, including those of branches, follow the inputs of the model, with types and shapes."""
    module = nn.Sequential(nn.Linear(4, 2000), nn.ReLU(), nn.Linear(2000, 4), Branch()).eval()
    if in_memory:
        proto = convert.to_onnx(module, "float32[batch,4]", opset=opset)
    else:
        convert.convert(module, "onnx", tmp_path / "m.onnx", inputs="float32[batch,4]", opset=opset)
        proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto)
    assert proto.ir_version == version
    weights = {t.name: (t.data_type, list(t.dims)) for t in proto.graph.initializer}
    inputs = {v.name: (v.type.tensor_type.elem_type, [d.dim_value for d in v.type.tensor_type.shape.dim])
              for v in proto.graph.input}  # fmt: skip
    assert next(iter(inputs)) not in weights
    assert {n: inputs[n] for n in list(inputs)[1:]} == (weights if version == 3 else {})
    branches = [a.g for n in proto.graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    assert branches
    assert version > 3 or not any(g.initializer for g in branches)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    assert [i.name for i in session.get_inputs()] == list(inputs)[:1]


@pytest.mark.slow
def test_a_file_of_ir_version_3_is_read_with_its_own_inputs(tmp_path: Path) -> None:
    convert.convert(nn.Linear(4, 2), "onnx", tmp_path / "old.onnx", inputs="float32[batch,4]", opset=7)
    report = convert.convert(tmp_path / "old.onnx", "onnx", tmp_path / "new.onnx", opset=20)
    assert [i.name for i in report.inputs] == ["input"]
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


@pytest.mark.slow
@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 20, 23])
def test_nothing_is_written_that_nobody_reads(opset: int) -> None:
    """Axes and sizes become attributes in older opsets, and the constants that held them are removed."""

    class Axes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = F.pad(x, (1, 0)).sum(1).unsqueeze(1).mean(-1, keepdim=True)
            return y.clamp(-1, 1) + x[:, 1:3].amax(1, keepdim=True)

    proto = convert.to_onnx(Axes(), "float32[batch,4,6]", opset=opset)
    read = {name for n in proto.graph.node for name in n.input} | {v.name for v in proto.graph.output}
    assert {t.name for t in proto.graph.initializer} <= read


@pytest.mark.parametrize("opset", [7, 8])
def test_what_an_opset_cannot_say_is_refused_and_not_rewritten_for_its_readers(opset: int) -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (float[M] y) <int64[1] start = {-1}, int64[1] end = {-100}, int64[1] axis = {0},
        int64[1] step = {-1}> { y = Slice (x, start, end, axis, step) }""")
    with pytest.raises(convert.Unsupported, match="takes no steps"):
        convert.to_onnx(model, opset=opset, verify=False)
