"""Whole exported programs: names, layout, dynamic dims, trainable weights, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.writer.exported import export_model
from convert.frontends.pytorch.runner.runner import run, run_as_used
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.errors import Unsupported
from convert.request.options import Options
from convert.request.source import Source

FIXTURES = Path(__file__).parents[3] / "fixtures"


def model_of(nodes: list, inputs: dict, outputs: list[str], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Return a model of float32 inputs with these dims."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "net", given, made, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def perceptron() -> onnx.ModelProto:
    """Two dense layers; the input has an upper-case name, which torch.export does not write itself."""
    rng = np.random.default_rng(0)
    weights = {
        "body.0.weight": rng.normal(size=(4, 8)).astype(np.float32),
        "body.0.bias": rng.normal(size=8).astype(np.float32),
        "head/kernel": rng.normal(size=(8, 2)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["X", "body.0.weight"], ["a"]),
        helper.make_node("Add", ["a", "body.0.bias"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "head/kernel"], ["y.1"]),
    ]
    return model_of(nodes, {"X": ["batch", 4]}, ["y.1"], weights)


def loaded(model: onnx.ModelProto, folder: Path, **options: object) -> torch.export.ExportedProgram:
    """Return the model, written without a verification and loaded by PyTorch."""
    report = convert.convert(model, "torch", folder / "model.pt2", verify=False, **options)  # type: ignore[arg-type]
    assert report.renamed == {"inputs": {}, "outputs": {}}
    return torch.export.load(folder / "model.pt2")


def test_names_and_dims_are_the_sources(tmp_path: Path) -> None:
    program = loaded(perceptron(), tmp_path)
    assert program.graph_signature.user_inputs == ("X",)
    assert set(program.state_dict) == {"body.0.weight", "body.0.bias", "head.kernel"}
    assert program.state_dict["body.0.weight"].shape == (8, 4), "as nn.Linear has it"
    for batch in (1, 2, 7):
        (name, y), *rest = program.module()(torch.zeros(batch, 4)).items()
        assert (name, tuple(y.shape), rest) == ("y.1", (batch, 2), [])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("class", "class_"), ("self", "self_"), ("a.None.b", "a.None_.b"), ("graph.conv", "graph_1.conv"),
        ("code", "code_1"), ("meta.w", "meta_1.w"), ("_guards_fn", "_guards_fn_1"), ("__class__", "__class___1"),
        ("forward.w", "forward_.w"), ("../../w", "w"), ("layer.graph", "layer.graph"), ("\ufb01", "fi"),
        ("\uff02'\x01", "___"), (".".join(["a"] * 2000), ".".join(["a"] * 64 + ["_".join(["a"] * 1936)])),
    ],
)  # fmt: skip
def test_a_weight_of_any_name_has_a_place_in_the_program(name: str, wanted: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", name], ["y"])]
    program = loaded(model_of(nodes, {"x": ["n", 4]}, ["y"], {name: np.ones((4, 2), np.float32)}), tmp_path)
    assert list(program.state_dict) == [wanted]
    assert program.module()(torch.ones(3, 4))["y"].tolist() == [[4.0, 4.0]] * 3


@pytest.mark.parametrize("name", ["torch", "fx_pytree", "device", "class"])
def test_an_input_hides_nothing_that_the_program_uses(name: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", [name], ["y"])]
    report = convert.convert(model_of(nodes, {name: ["n", 4]}, ["y"], {}), "torch", tmp_path / "m.pt2", verify=False)
    assert report.renamed == {"inputs": {name: f"{name}_"}, "outputs": {}}
    program = torch.export.load(tmp_path / "m.pt2")
    assert program.module()(torch.ones(3, 4))["y"].tolist() == [[1.0] * 4] * 3


def test_fine_tuning_goes_as_with_a_module_written_by_hand(tmp_path: Path) -> None:
    module = loaded(perceptron(), tmp_path).module()
    reference = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2, bias=False))
    own = dict(module.named_parameters())
    reference[0].weight.data.copy_(own["body.0.weight"])
    reference[0].bias.data.copy_(own["body.0.bias"])
    reference[2].weight.data.copy_(own["head.kernel"])
    torch.manual_seed(0)
    x, wanted = torch.randn(16, 4), torch.randn(16, 2)

    def losses(parameters, call) -> list[float]:
        optimizer, found = torch.optim.SGD(parameters, lr=0.02), []
        for _ in range(5):
            loss = torch.nn.functional.mse_loss(call(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    ours = losses(module.parameters(), lambda x: module(x)["y.1"])
    assert ours == pytest.approx(losses(reference.parameters(), reference), rel=1e-5)
    assert ours[-1] < 0.9 * ours[0]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["mnist_cnn.onnx", "mnist_cnn.pt"])
def test_a_network_is_verified(source: str, tmp_path: Path) -> None:
    report = convert.convert(FIXTURES / source, "torch", tmp_path / "model.pt2")
    assert report.verdict.status == "PASS", report.verdict.reason


@pytest.mark.slow
def test_a_channels_last_network_keeps_transposes_at_its_boundary(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    convert.convert(FIXTURES / "mnist_cnn.keras", "torch", tmp_path / "model.pt2", verify=False)
    program = torch.export.load(tmp_path / "model.pt2")
    calls = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert sum("permute" in c or "transpose" in c for c in calls) <= 2, calls
    assert sum("conv2d" in c for c in calls) == 2


def test_a_batch_of_one_is_a_batch(tmp_path: Path) -> None:
    """A program must not depend on the kernel that PyTorch would choose for a convolution."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["a"]),
        helper.make_node("Conv", ["a", "d"], ["y"], group=4),
    ]
    weights = {"w": np.ones((4, 3, 1, 1), np.float32), "d": np.ones((4, 1, 3, 3), np.float32)}
    program = loaded(model_of(nodes, {"x": ["batch", 8, 8, 3]}, ["y"], weights), tmp_path)
    assert program._guards_code == []
    assert program.module()(torch.ones(1, 8, 8, 3))["y"].unique().tolist() == [27]


def test_a_clip_between_constants_is_one_pass(tmp_path: Path) -> None:
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"])]
    weights = {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    program = loaded(model_of(nodes, {"x": ["n"]}, ["y"], weights), tmp_path)
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == ["aten.clamp.default"]
    assert program.module()(torch.tensor([-1.0, 3, 7]))["y"].tolist() == [0, 3, 6]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("given", [(), ("low",), ("", "high"), ("low", "high")])
def test_a_bound_that_a_clip_is_not_given_is_the_largest_number(
    given: tuple[str, ...], constant: bool, tmp_path: Path
) -> None:
    """The missing bound acts as in onnxruntime; onnx's own evaluator keeps infinities."""
    model = model_of([helper.make_node("Clip", ["x", *given], ["y"])], {"x": ["n"]}, ["y"], {})
    ends = {"low": np.array(-2, np.float32), "high": np.array(2, np.float32)}
    for name in filter(None, given):
        if constant:
            model.graph.initializer.append(numpy_helper.from_array(ends[name], name))
        else:
            model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, []))
    feed = {"x": np.array([np.inf, -np.inf, 3, -3, 0.5], np.float32)}
    feed |= {} if constant else {name: ends[name] for name in filter(None, given)}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    got = loaded(model, tmp_path).module()(*(torch.from_numpy(a) for a in feed.values()))["y"]
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_batch_of_one_is_a_batch_where_channels_are_sliced(operator: str, dims: int, tmp_path: Path) -> None:
    """A slice is contiguous for batch size 1 only; a convolution of any rank must not require that."""
    nodes = [
        helper.make_node("Slice", ["x", "zero", "three", "one"], ["a"]),
        helper.make_node(operator, ["a", "w"], ["y"]),
    ]
    numbers = {"zero": np.array([0]), "three": np.array([3]), "one": np.array([1])}
    weights = {"w": np.ones((3, 3, *[2] * dims), np.float32), **numbers}
    program = loaded(model_of(nodes, {"x": ["batch", 5, *[4] * dims]}, ["y"], weights), tmp_path)
    assert program._guards_code == []
    for batch in (1, 2):
        found = program.module()(torch.ones(batch, 5, *[4] * dims))["y"]
        assert found.shape[0] == batch
        assert found.max().item() == 3 * 2**dims


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_a_batch_of_one_is_a_batch_where_scores_are_turned(operator: str, tmp_path: Path) -> None:
    """PyTorch derives the result's layout from the input, and a transposed input is contiguous for batch size 1
    only.
    """
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node(operator, ["t"], ["y"])]
    model = model_of(nodes, {"x": ["batch", 3]}, ["y"], {})
    program = loaded(model, tmp_path)
    assert program._guards_code == []
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch in (1, 4):
        x = np.random.default_rng(batch).standard_normal((batch, 3)).astype(np.float32)
        (expected,) = session.run(None, {"x": x})
        np.testing.assert_allclose(program.module()(torch.from_numpy(x))["y"].numpy(), expected, rtol=1e-6, atol=1e-6)


def test_a_program_is_verified_with_its_own_conditions(tmp_path: Path) -> None:
    class Network(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"y": x * 2 if x.numel() > 6 else x * 3}

    dims = dict.fromkeys((0, 1), torch.export.Dim.AUTO)
    program = torch.export.export(Network(), (torch.ones(4, 2),), dynamic_shapes=(dims,))
    torch.export.save(program, tmp_path / "m.pt2")
    source, feeds = Source("torch-export", tmp_path / "m.pt2"), [{"x": np.ones((2, 2), np.float32)}]
    run(source, feeds, precision="float32", options=Options())
    with pytest.raises(AssertionError, match="Guard failed"):
        run_as_used(source, feeds, Options())


def test_a_size_stays_a_size(tmp_path: Path) -> None:
    # Shape, Gather, Concat and Reshape, as exporters write `x.reshape(x.shape[0], -1)`.
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "rest": np.array([-1])}
    program = loaded(model_of(nodes, {"x": ["batch", 3, 4]}, ["y"], weights), tmp_path)
    assert program.module()(torch.zeros(5, 3, 4))["y"].shape == (5, 12)
    assert not any("stack" in str(n.target) for n in program.graph.nodes)


def test_what_has_no_form_is_listed(tmp_path: Path) -> None:
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    given = [helper.make_tensor_value_info(n, TensorProto.STRING, [2]) for n in "ab"]
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", TensorProto.STRING, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with pytest.raises(Unsupported, match=r"StringConcat.*no tensors of text"):
        convert.convert(model, "torch", tmp_path / "m.pt2")


@pytest.mark.slow
def test_the_file_tells_nothing_of_this_machine(tmp_path: Path) -> None:
    loaded(perceptron(), tmp_path)
    first = (tmp_path / "model.pt2").read_bytes()
    assert b"backends/pytorch" not in first
    (tmp_path / "again").mkdir()
    loaded(perceptron(), tmp_path / "again")
    assert (tmp_path / "again" / "model.pt2").read_bytes() == first


def test_a_dim_that_capture_fixes_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A note would not be enough, because nobody reads it and the program takes one size only."""

    def export(module: torch.nn.Module, examples: Any, dynamic: Any) -> Any:
        if next(iter(dynamic[0].values())) is torch.export.Dim.DYNAMIC:
            raise RuntimeError("the dim was specialized")
        return torch.export.export(module, examples, strict=False)

    monkeypatch.setattr("convert.backends.pytorch.writer.exported._export", export)
    with pytest.raises(Unsupported, match="one size only of dim 0 of the input 'image'"):
        convert.convert(FIXTURES / "mnist_cnn.onnx", "torch", tmp_path / "m.pt2", verify=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(-1, -(2**62), -1), (2**31 - 1, -3, -1), (-1, 1, -2), (-1, -1, -1), (1, 9, 3), (0, 6, 1), (-6, -3, 1), (3, 4, 1)],
)
def test_a_slice_of_a_size_that_is_not_known(start: int, end: int, step: int) -> None:
    node = helper.make_node("Slice", ["x", "s", "e", "axes", "by"], ["y"])
    weights = {"s": np.array([start]), "e": np.array([end]), "axes": np.array([0]), "by": np.array([step])}
    model = model_of([node], {"x": ["n"]}, ["y"], {**weights, "unused": np.zeros((3, 3), np.float32)})
    program = export_model(ir.from_proto(model))
    assert not program.state_dict
    for n in (1, 2, 5, 8):
        x = np.arange(n, dtype=np.float32)
        assert program.module()(torch.from_numpy(x))["y"].tolist() == x[start:end:step].tolist(), n
    assert program.graph.find_nodes(op="call_function", target=torch.ops.aten.item.default) == []


def test_a_difference_of_sizes_may_be_negative() -> None:
    """Quotients of such a difference round towards zero, and it may be -1; pads computed from it are sizes in any
    order.
    """
    constants = {"five": 5, "two": 2, "less": -2, "one": -1, "seven": [7], "nothing": [0], "rest": [[0, 0]]}
    constants |= {"pair": [1, 2], "flat": [-1]}
    graph = """g (float[n, 2] x) => (int64 half, int64 other, bool same, float[m, 2] padded) {
        length = Shape <start = 0, end = 1> (x)
        number = Squeeze (length)
        gap = Sub (number, five)
        half = Div (gap, two)
        other = Div (gap, less)
        same = Equal (gap, one)
        lack = Sub (seven, length)
        line = Concat <axis = 0> (nothing, lack)
        row = Reshape (line, pair)
        rows = Concat <axis = 0> (row, rest)
        columns = Transpose <perm = [1, 0]> (rows)
        pads = Reshape (columns, flat)
        padded = Pad (x, pads)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {graph}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(v), n) for n, v in constants.items())
    program = export_model(ir.from_proto(model)).module()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for n in range(1, 8):
        x = np.ones((n, 2), np.float32)
        found = program(torch.from_numpy(x))
        for name, wanted in zip(found, session.run(list(found), {"x": x}), strict=True):
            np.testing.assert_array_equal(found[name].numpy(), wanted, f"{name} of {n}")


def test_a_pool_of_lines_takes_any_length() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2], pads=[1, 1])
    program = export_model(ir.from_proto(model_of([node], {"x": ["n", 2, "t"]}, ["y"], {}))).module()
    for t in (2, 5, 8):
        x = torch.randn(1, 2, t)
        assert torch.equal(program(x)["y"], torch.nn.functional.max_pool1d(x, 3, 2, 1))


def test_the_largest_and_the_least_of_any_number_of_sizes() -> None:
    graph = """g (float[p, q] x) => (float[r] largest, float[s] least) {
        a = Shape<start = 0, end = 1>(x)
        b = Shape<start = 1, end = 2>(x)
        four = Constant<value_ints = [4]>()
        most = Max(a, b, four)
        few = Min(most, b, a, four)
        one = Max(few)
        largest = ConstantOfShape(most)
        least = ConstantOfShape(one)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {graph}')
    program = export_model(ir.from_proto(model)).module()
    for p, q in ((2, 3), (2, 7), (9, 5)):
        found = program(torch.zeros(p, q))
        assert (*found["largest"].shape, *found["least"].shape) == (max(p, q, 4), min(p, q, 4)), (p, q)


@pytest.mark.long
def test_a_trained_network_of_keras_reads_digits_as_well(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    convert.convert(FIXTURES / "mnist_cnn.keras", "torch", tmp_path / "m.pt2", verify=False)
    digits = np.load(FIXTURES / "digits_test.npz")
    images = digits["images"].transpose(0, 2, 3, 1)
    wanted = keras.saving.load_model(FIXTURES / "mnist_cnn.keras").predict(images, verbose=0)
    wanted = wanted["log_probs"] if isinstance(wanted, dict) else wanted
    with torch.no_grad():
        got = torch.export.load(tmp_path / "m.pt2").module()(torch.from_numpy(images.copy()))["log_probs"].numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert (got.argmax(1) == wanted.argmax(1)).all()
    assert (got.argmax(1) == digits["labels"]).mean() > 0.9


def test_sizes_that_are_not_known_and_do_not_fit_are_refused(tmp_path: Path) -> None:
    """To PyTorch, dims of two names are never equal: this must be a refusal, not a defect."""
    graph = "g (float[n, 4] x, float[m, 4] z) => (float[k, 4] y) { y = Add(x, z) }"
    text = f'<ir_version: 10, opset_import: ["" : 20]> {graph}'
    with pytest.raises(Unsupported, match="sizes that are not known") as refused:
        convert.convert(onnx.parser.parse_model(text), "torch", tmp_path / "m.pt2", verify=False)
    assert refused.value.hint == "say the sizes with --input"


def test_a_note_says_what_the_kernel_of_gelu_makes_of_infinities(tmp_path: Path) -> None:
    """PyTorch 2.13 gives NaN for +∞; a verification does not count this against the artefact."""
    graph = "g (float[n, 16] x) => (float[n, 16] y) { y = Gelu(x) }"
    text = f'<ir_version: 10, opset_import: ["" : 20]> {graph}'
    report = convert.convert(onnx.parser.parse_model(text), "torch", tmp_path / "m.pt2")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any(note.code == "special-values" and "Gelu" in note.operators for note in report.notes)
    assert any(note.code == "kernel-numbers" and "Gelu" in note.operators for note in report.notes)
    # In a source this difference is part of the rounding error, which the verdict measures.
    back = convert.convert(tmp_path / "m.pt2", "onnx", tmp_path / "m.onnx")
    assert [note for note in back.notes if "Gelu" in note] == ["special values: Gelu: PyTorch's kernel makes NaN of +∞"]


def test_parts_that_no_number_picks_and_axes_of_which_there_are_none() -> None:
    """Each index of depth 0 selects all of x, within its batch; without axes, onnxruntime squeezes all dims of 1."""
    graph = """g (float[2, 3] x, float[1, 2, 1] z) => (float[4, 2, 3] y, float[2, 5, 3] of_batch, float[2] flat) {
        y = GatherND(x, none)
        of_batch = GatherND<batch_dims = 1>(x, of_none)
        flat = Squeeze(z, nothing)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {graph}')
    for name, shape in (("none", (4, 0)), ("of_none", (2, 5, 0)), ("nothing", (0,))):
        model.graph.initializer.append(numpy_helper.from_array(np.zeros(shape, np.int64), name))
    x, z = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((1, 2, 1), np.float32)
    found = export_model(ir.from_proto(model)).module()(torch.from_numpy(x), torch.from_numpy(z))
    np.testing.assert_array_equal(found["y"], np.broadcast_to(x, (4, 2, 3)))
    np.testing.assert_array_equal(found["of_batch"], np.broadcast_to(x[:, None], (2, 5, 3)))
    assert found["flat"].shape == (2,)
