"""Whole `.keras` files against onnxruntime: names, layout, dynamic dims, trainable weights, refusals."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from convert.frontends.tensorflow.runner.keras_archive import load_keras
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.parity.method import VerifyMethod
from convert.passes.layout.boundary import permute_boundary
from convert.request.options import Options
from tests.support.tensorflow_networks import INPUT, OUTPUT, close, image, onnxruntime_of, resnet, shared

keras = pytest.importorskip("keras", reason="the Keras backend writes with Keras")

FIXTURES = Path(__file__).parents[3] / "fixtures"


def write(proto: onnx.ModelProto, path: Path, **options: str) -> Report:
    from convert.backends import keras as backend

    report, model = Report("convert"), shared(proto)
    permute_boundary(model, options.pop("layout", ""))
    backend.write(model, path, "keras", Options(**options), report)
    return report


def written(proto: onnx.ModelProto, folder: Path, **options: str):
    """Return the model, written and then loaded by Keras in safe mode without custom objects."""
    path = folder / "model.keras"
    write(proto, path, **options)
    return keras.saving.load_model(path)


def kinds(model) -> Counter:
    return Counter(type(operation).__name__ for operation in model.operations)


def value(name: str, shape: list, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes: list, inputs: list, outputs: list, weights: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def test_a_network_is_made_of_layers(tmp_path: Path) -> None:
    proto = resnet()
    model = written(proto, tmp_path)
    found = kinds(model)
    assert found["Conv2D"] == 9
    assert found["DepthwiseConv2D"] == 1
    assert found["BatchNormalization"] == 9
    assert (found["MaxPooling2D"], found["GlobalAveragePooling2D"], found["Dense"]) == (1, 2, 1)
    assert found["Permute"] + found["Transpose"] == 1  # one for the input
    assert found["Add"] == 2
    names = [operation.name for operation in model.operations]
    assert len(set(names)) == len(names)
    assert {n for n in names if n.startswith("layers_Conv_")} >= {"layers_Conv_0", "layers_Conv_4"}
    for batch in (1, 3):
        x = image(batch, 3, 32, 32)
        close(np.asarray(model(x)), onnxruntime_of(proto, {INPUT: x})[0])


@pytest.mark.slow
def test_what_is_called_otherwise_is_told(tmp_path: Path) -> None:
    from convert.frontends.tensorflow.runner.names import keras_names

    path = tmp_path / "m.keras"
    report = write(resnet(), path)
    assert report.renamed == {"inputs": {INPUT: "input_1_0"}, "outputs": {OUTPUT: "n_my_output__"}}
    assert len(report.notes) == 2
    assert keras_names(load_keras(path)) == (["input_1_0"], ["n_my_output__"])


@pytest.mark.slow
def test_layout_nhwc_moves_the_boundary(tmp_path: Path) -> None:
    proto = resnet()
    model = written(proto, tmp_path, layout="nhwc")
    assert not {"Permute", "Transpose"} & set(kinds(model))
    x = image(2, 3, 32, 32)
    close(np.asarray(model(x.transpose(0, 2, 3, 1))), onnxruntime_of(proto, {INPUT: x})[0])


def test_names_dtypes_and_order_are_kept(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["b", "b"], ["z"]),
        helper.make_node("Cast", ["a:0"], ["y"], to=TensorProto.DOUBLE),
        helper.make_node("Identity", ["b"], ["x"]),
    ]
    inputs = [value("b", ["n"], TensorProto.INT64), value("a:0", [], TensorProto.FLOAT16)]
    outputs = [value("z", ["n"], TensorProto.INT64), value("y", [], TensorProto.DOUBLE), value("x", ["n"], 7)]
    model = written(model_of(nodes, inputs, outputs), tmp_path)
    assert [x.name for x in model.inputs] == ["b", "a_0"]
    assert model.output_names == ["z", "y", "x"]
    b, a = np.array([2**40, -1]), np.float16(1.5)
    z, y, x = model([b, a])
    assert [keras.backend.standardize_dtype(t.dtype) for t in (z, y, x)] == ["int64", "float64", "int64"]
    assert np.asarray(z).tolist() == [2**41, -2]
    assert [np.asarray(t).tolist() for t in model({"a_0": a, "b": b})] == [[2**41, -2], 1.5, [2**40, -1]]


@pytest.mark.slow
def test_layers_are_called_as_the_modules_of_the_source(tmp_path: Path) -> None:
    report = convert.convert(FIXTURES / "mnist_cnn.pt", "keras", tmp_path / "m.keras", verify=False)
    assert report.output_bytes > 0
    model = keras.saving.load_model(tmp_path / "m.keras")
    layers = {layer.name for layer in model.layers if layer.variables}
    assert {"conv1", "conv2"} <= layers
    assert [x.name for x in model.inputs] == ["input"]
    assert model.output_names == ["output"]


@pytest.mark.parametrize("shape", [(1, 1, 16, 20), (2, 1, 9, 7)])
def test_super_resolution_takes_any_height_and_width(tmp_path: Path, shape: tuple[int, ...]) -> None:
    proto = onnx.load(FIXTURES / "super_resolution.onnx")
    model = written(proto, tmp_path)
    x = image(shape[0], *shape[1:])
    close(np.asarray(model(x)), onnxruntime_of(proto, {proto.graph.input[0].name: x})[0])


@pytest.mark.slow
def test_training_goes_on(tmp_path: Path) -> None:
    """Ten optimizer steps on digits with shifted labels: the loss falls, and every weight moves."""
    model = written(onnx.load(FIXTURES / "mnist_cnn.onnx"), tmp_path)
    with np.load(FIXTURES / "digits_test.npz") as digits:
        x, labels = digits["images"][:64].astype(np.float32), (digits["labels"][:64].astype(np.int64) + 1) % 10
    before = [np.array(w) for w in model.trainable_variables]
    assert len(before) == 8
    # The model outputs log-probabilities; their softmax gives the probabilities.
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    losses = [model.train_on_batch(x, labels) for _ in range(10)]
    assert losses[-1] < 0.7 * losses[0]
    for old, new in zip(before, model.trainable_variables, strict=True):
        assert not np.array_equal(old, np.array(new)), new.path


def test_shapes_that_the_graph_computes(tmp_path: Path) -> None:
    """A repeated class token, split and joined heads, and computed positions, with dynamic batch size and length."""
    rng = np.random.default_rng(0)
    weights = {
        "token": rng.standard_normal((1, 1, 12)).astype(np.float32),
        "heads": np.array([3, 4]),
        "width": np.array([12]),
        "positions": rng.standard_normal((40, 12)).astype(np.float32),
        "zero": np.array(0),
        "one": np.array(1),
        "sizes": np.array([1, 12]),
        "first": np.array([0]),
        "second": np.array([1]),
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], end=1),
        helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
        helper.make_node("Concat", ["batch", "sizes"], ["shape"], axis=0),
        helper.make_node("Expand", ["token", "shape"], ["tokens"]),
        helper.make_node("Squeeze", ["length", "first"], ["count"]),
        helper.make_node("Range", ["zero", "count", "one"], ["places"]),
        helper.make_node("Gather", ["positions", "places"], ["embedded"]),
        helper.make_node("Add", ["x", "embedded"], ["placed"]),
        helper.make_node("Concat", ["tokens", "placed"], ["all"], axis=1),
        helper.make_node("Shape", ["x"], ["lead"], end=2),
        helper.make_node("Concat", ["lead", "heads"], ["split"], axis=0),
        helper.make_node("Reshape", ["placed", "split"], ["several"]),
        helper.make_node("Transpose", ["several"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["turned"], ["back"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["lead", "width"], ["joined"], axis=0),
        helper.make_node("Reshape", ["back", "joined"], ["flat"]),
    ]
    outputs = [value("all", ["n", None, 12]), value("turned", ["n", 3, "t", 4]), value("flat", ["n", "t", 12])]
    proto = model_of(nodes, [value("x", ["n", "t", 12])], outputs, weights)
    # ONNX's inference does not name the length of a Range.
    proto.graph.value_info.append(value("places", ["t"], TensorProto.INT64))
    model = written(proto, tmp_path)
    for n, t in ((1, 5), (3, 2)):
        x = image(n, t, 12)
        for got, want in zip(model(x), onnxruntime_of(proto, {"x": x}), strict=True):
            close(np.asarray(got), want)
    assert {tuple(w.shape) for w in model.trainable_variables} == {(1, 12), (40, 12)}


def test_nodes_that_share_a_weight_share_the_layer(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    proto = model_of(nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], {"w": image(4, 4)})
    model = written(proto, tmp_path)
    assert kinds(model)["Dense"] == 1
    assert len(model.trainable_variables) == 1
    x = image(3, 4)
    close(np.asarray(model(x)), onnxruntime_of(proto, {"x": x})[0])


def test_a_normalization_of_two_ranks_is_two_layers(tmp_path: Path) -> None:
    names = ["s", "b", "s", "s"]
    nodes = [
        helper.make_node("BatchNormalization", ["x", *names], ["a"]),
        helper.make_node("BatchNormalization", ["z", *names], ["c"]),
    ]
    weights = {"s": np.float32([1, 2]), "b": np.float32([0.5, -1])}
    inputs, outputs = ([value(m, ["n", 2, 3]), value(n, ["n", 2, 3, 4])] for m, n in (("x", "z"), ("a", "c")))
    proto = model_of(nodes, inputs, outputs, weights)
    model, feeds = written(proto, tmp_path), {"x": image(2, 2, 3), "z": image(2, 2, 3, 4)}
    for got, want in zip(model([feeds[i.name] for i in model.inputs]), onnxruntime_of(proto, feeds), strict=True):
        close(np.asarray(got), want)


def test_a_weight_in_layers_of_two_kinds_is_said_to_be_copied(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["a"]),
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["a", "turned"], ["y"]),
    ]
    proto = model_of(nodes, [value("ids", ["n"], TensorProto.INT64)], [value("y", ["n", 6])], {"table": image(6, 4)})
    report = write(proto, tmp_path / "m.keras")
    assert [note for note in report.notes if "'table'" in note]
    ids = np.array([5, 0, -1])
    got = keras.saving.load_model(tmp_path / "m.keras")(ids)
    close(np.asarray(got), onnxruntime_of(proto, {"ids": ids})[0])


def test_everything_that_has_no_form_in_keras_is_listed_before_any_work(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], name="places"),
        helper.make_node("Unique", ["x"], ["once"], name="once"),
        helper.make_node("RandomUniformLike", ["signal"], ["drawn"], name="drawn"),
        helper.make_node("MaxPool", ["signal"], ["pooled", "where"], name="pool", kernel_shape=[2, 1], strides=[2, 1]),
        helper.make_node("LSTM", ["series", "w", "r"], ["h"], name="lstm", hidden_size=1, clip=1.0),
    ]
    weights = {"w": image(1, 4, 3), "r": image(1, 4, 1)}
    inputs = [value("x", [2, "n", 3]), value("signal", ["n", 8, 1, 1]), value("series", ["steps", 2, 3])]
    outputs = [value(name, None) for name in ("places", "once", "drawn", "pooled", "where", "h")]
    outputs[0].type.tensor_type.elem_type = outputs[4].type.tensor_type.elem_type = TensorProto.INT64
    proto = model_of(nodes, inputs, outputs, weights)
    proto.graph.node[2].metadata_props.add(key="convert.module", value="model.front.fourier")
    with pytest.raises(Unsupported) as caught:
        write(proto, tmp_path / "m.keras")
    assert caught.value.exit_code == 4
    assert not (tmp_path / "m.keras").exists()
    found = {p.at.operator: p for p in caught.value.problems}
    assert set(found) == {"Unique", "RandomUniformLike", "MaxPool", "LSTM"}
    assert found["RandomUniformLike"].at.module == "model.front.fourier"
    assert found["LSTM"].why == "a cell that Keras has no layer for, over a dynamic number of steps"
    assert found["MaxPool"].why == "the indices of a MaxPool"


def test_the_file_holds_nothing_but_kerass_own(tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    write(onnx.load(FIXTURES / "mnist_cnn.onnx"), path)
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    classes = {(layer["module"], layer["class_name"]) for layer in config["config"]["layers"]}
    assert {module.split(".")[0] for module, _ in classes} == {"keras"}
    assert ("keras.layers", "Conv2D") in classes
    assert "Lambda" not in str(classes)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "mobilenetv3_small_100",
        "resnet18",
        "resnet50",
        "mobilenetv2_100",
        "efficientnet_b0",
        "densenet121",
        "vgg11_bn",
        "convnext_atto",
        "vit_tiny_patch16_224",
        "regnetx_002",
    ],
)
def test_a_network_of_timm_converts_verified(name: str, tmp_path: Path) -> None:
    from tests.support import timm_helper

    size = 224 if name in ("vgg11_bn", "vit_tiny_patch16_224") else 64
    spec = f"x:float32[batch,3,{size},{size}]"
    path = tmp_path / "net.keras"
    report = convert.convert(
        timm_helper.create(name, size), "keras", path, inputs=spec, verify=True, method=VerifyMethod(seeds=2)
    )
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    found = kinds(keras.saving.load_model(path))
    if name not in ("vit_tiny_patch16_224", "convnext_atto"):
        assert found["Permute"] + found["Transpose"] == 1


def test_outputs_that_depend_on_no_input(tmp_path: Path) -> None:
    """Outputs that depend on no input are not folded. Nodes that use them are not folded either."""
    one, weights = ["Relu", "Gelu", "Elu", "Sigmoid", "Softmax"], {"c": np.float32([[-1, 0.5], [2, 3]])}
    nodes = [helper.make_node(kind, ["c"], [f"y{i}"]) for i, kind in enumerate(one)]
    nodes += [helper.make_node("Reshape", ["y0", "shape"], ["flat"]), helper.make_node("ReduceSum", ["n"], ["total"])]
    nodes += [helper.make_node("Add", ["flat", "flat"], ["twice"]), helper.make_node("MatMul", ["y1", "c"], ["square"])]
    nodes += [
        helper.make_node("BatchNormalization", ["c", *["two"] * 4], ["norm"]),
        helper.make_node("Neg", ["x"], ["z"]),
    ]
    weights |= {"shape": np.array([4]), "n": np.array([1, 2, 3]), "two": np.float32([1, 2])}
    shapes = {**{f"y{i}": [2, 2] for i in range(len(one))}, "flat": [4], "twice": [4], "square": [2, 2], "norm": [2, 2]}
    outputs = [value(name, shape) for name, shape in ({**shapes, "z": ["n"]}).items()]
    proto = model_of(nodes, [value("x", ["n"])], [*outputs, value("total", [1], TensorProto.INT64)], weights)
    x = np.float32([1, -2, 3])
    found = dict(zip([o.name for o in proto.graph.output], onnxruntime_of(proto, {"x": x}), strict=True))
    got = written(proto, tmp_path)({"x": x})
    for (name, want), y in zip(found.items(), keras.tree.flatten(got), strict=True):
        np.testing.assert_allclose(np.asarray(y), want, rtol=1e-6, err_msg=name)
        assert np.asarray(y).dtype == want.dtype, name


@pytest.mark.slow
def test_constant_outputs_take_no_name_of_a_node(tmp_path: Path) -> None:
    """Keras calls the squeeze after a constant `squeeze`, with a number if the name is in use."""
    nodes = [
        helper.make_node("Tanh", [f"v{n}"], [f"v{n + 1}"], name=f"squeeze_{n}" if n else "squeeze") for n in range(60)
    ]
    nodes.append(helper.make_node("Transpose", ["c"], ["fixed"]))
    outputs = [value("v60", ["n"]), value("fixed", [2, 1])]
    proto = model_of(nodes, [value("v0", ["n"])], outputs, {"c": np.float32([[1, 2]])})
    found = keras.tree.flatten(written(proto, tmp_path)({"v0": np.float32([3, 4])}))
    np.testing.assert_array_equal(found[1], [[1], [2]])


def test_dims_of_unknown_sizes_are_repeated_in_turns(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[a,b,c,d,e,f] x, float[g,h,i,j,k,l] z) => (float[m,n,o,p,q,r] y) { y = Mul (x, z) }""")
    model = written(proto, tmp_path)
    x, z = (
        np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((2, 1, 3, 1, 2, 1), (1, 3, 1, 2, 1, 2))
    )
    for left, right in ((x, z), (x, x)):
        np.testing.assert_array_equal(model([left, right]), left * right)


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 0), (3, 2, 1), (5, 3, 2), (3, 1, 1)])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pools_that_keep_the_rest_of_any_size(kind: str, kernel: int, stride: int, pad: int, tmp_path: Path) -> None:
    """If the size is unknown, ceil_mode becomes padding for one more window at the end."""
    counted = ", count_include_pad = 1" if kind == "AveragePool" and pad else ""
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 19]>
        g (float[n,2,h,w] x) => (float[n,2,i,j] y) {{
            y = {kind} <kernel_shape = [{kernel}, {kernel}], strides = [{stride}, {stride}], ceil_mode = 1,
                        pads = [{pad}, {pad}, {pad}, {pad}]{counted}> (x) }}""")
    model = written(proto, tmp_path)
    for height in range(kernel, kernel + 6):
        x = image(2, 2, height, height + 3) - 2
        np.testing.assert_allclose(np.asarray(model(x)), onnxruntime_of(proto, {"x": x})[0], rtol=1e-6, atol=1e-7)


def test_what_the_source_does_not_train_is_not_trained(tmp_path: Path) -> None:
    import torch

    from tests.backends.pytorch.test_training import Filtered

    source = Filtered().eval()
    convert.convert(source, "keras", tmp_path / "m.keras", inputs="x:float32[batch,12]", verify=False)
    model = load_keras(tmp_path / "m.keras")
    own = sorted(p.numel() for p in source.parameters())
    assert sorted(int(np.prod(w.shape)) for w in model.trainable_weights) == own
    x = image(3, 12)
    with torch.no_grad():
        close(np.asarray(model(x)), source(torch.from_numpy(x)).numpy())
