"""ONNX files whose data is elsewhere, whose sizes are huge, or that run without end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from convert.files.protobuf_wire import SAMPLE
from tests.suites.hostile_files.case import Canary, Case, file_name

IMPORTS = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
Info = helper.make_tensor_value_info
Node = helper.make_node


def model_of(
    nodes: Sequence[Any],
    held: dict[str, Any] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    functions: Sequence[Any] = (),
) -> onnx.ModelProto:
    """Return a model from x[2] to y, unless other inputs or outputs are given."""
    inputs = inputs or [Info("x", TensorProto.FLOAT, [2])]
    outputs = outputs or [Info("y", TensorProto.FLOAT, None)]
    tensors = [
        v if isinstance(v, TensorProto) else numpy_helper.from_array(np.asarray(v), n) for n, v in (held or {}).items()
    ]
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=IMPORTS, ir_version=9, functions=list(functions))


def external(location: str, dims: Sequence[int] = (2,), **more: str) -> onnx.ModelProto:
    """Return x + w, where w is in another file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=value)
    return model_of([Node("Add", ["x", "w"], ["y"])], {"w": weight})


def _elsewhere(folder: Path) -> dict[str, onnx.ModelProto]:
    (folder / "secret").write_bytes(bytes(8))
    own = folder / "model"
    own.mkdir()
    (own / "w.bin").write_bytes(bytes(8))
    (own / "folder").mkdir()
    os.symlink("../secret", own / "link")
    os.symlink("/dev/zero", own / "zero")
    os.symlink("loop", own / "loop")
    os.mkfifo(own / "fifo")
    with (own / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    names = ["../secret", "/etc/passwd", "/dev/zero", "/dev/stdin", "link", "zero", "loop", "fifo", "folder", "", ".",
             "a\0b", "a\nb", "w.bin/../w.bin", "folder/../../secret", "C:\\x", "file:///etc/passwd", "m\u202e.bin",
             "x" * 5000, "$HOME/x", "~/x", "http://127.0.0.1/x"]  # fmt: skip
    found = {f"data in {name[:20]!r}": external(name) for name in names}
    found |= {
        "a sparse terabyte": external("sparse", [1 << 38]),
        "a sparse terabyte in part": external("sparse", [2], offset=str(1 << 39)),
        "dims of 2^60": external("w.bin", [1 << 60]),
        "dims whose product overflows": external("w.bin", [1 << 32, 1 << 32]),
        "dims below zero": external("w.bin", [-2]),
        "an offset below zero": external("w.bin", offset="-8"),
        "an offset beyond": external("w.bin", offset="8"),
        "an offset of 10^30": external("w.bin", offset="1" + "0" * 30),
        "an offset of text": external("w.bin", offset="__import__"),
        "a length of 2^62": external("w.bin", length=str(1 << 62)),
        "a length below zero": external("w.bin", length="-1"),
        "a checksum": external("w.bin", checksum="x" * 40),
        "another key": external("w.bin", evil="1"),
    }
    return found


def _overlapping(folder: Path) -> onnx.ModelProto:
    """Return a sum of 200 weights, all of which are the same 4 MiB of a file."""
    with (folder / "model" / "shared.bin").open("wb") as file:
        file.truncate(1 << 22)
    held, nodes = {}, []
    for i in range(200):
        (weight,) = external("shared.bin", [1 << 20], offset="0").graph.initializer
        weight.name = f"w{i}"
        held[weight.name] = weight
        nodes.append(Node("Add", [f"h{i}" if i else "x", weight.name], [f"h{i + 1}" if i < 199 else "y"]))
    return model_of(nodes, held, [Info("x", TensorProto.FLOAT, [1 << 20])])


def held_inside(location: str) -> dict[str, onnx.ModelProto]:
    """Return models in which tensors other than the outermost graph's initializers have their data in another file."""
    add, far = Node("Add", ["x", "w"], ["y"]), external(location).graph.initializer[0]
    index = TensorProto(name="i", data_type=TensorProto.INT64, dims=[1], data_location=TensorProto.EXTERNAL)
    index.external_data.extend(far.external_data)
    values = onnx.SparseTensorProto(dims=[2], values=far, indices=numpy_helper.from_array(np.arange(2), "i"))
    one = numpy_helper.from_array(np.ones(1, "f4"), "w")
    indices = onnx.SparseTensorProto(dims=[2], values=one, indices=index)

    def branch(sparse: Sequence[Any] = (), held: Sequence[Any] = ()) -> onnx.ModelProto:
        inner = helper.make_graph([Node("Add", ["x", "w"], ["z"])], "b", [], [Info("z", 1, None)], held)
        inner.sparse_initializer.extend(sparse)
        other = helper.make_graph([Node("Neg", ["x"], ["z"])], "c", [], [Info("z", 1, None)])
        return model_of([Node("If", ["t"], ["y"], then_branch=inner, else_branch=other)], {"t": np.array(True)})

    def sparse_weight(sparse: onnx.SparseTensorProto) -> onnx.ModelProto:
        model = model_of([add])
        model.graph.sparse_initializer.append(sparse)
        return model

    def function(default: bool) -> onnx.ModelProto:
        told = [helper.make_attribute("v", far)]
        body = [Node("Constant", [], ["w"]), Node("Add", ["a", "w"], ["b"])]
        body[0].attribute.append(onnx.AttributeProto(name="value", type=4, ref_attr_name="v"))
        given: dict[str, Any] = {"attribute_protos": told} if default else {"attributes": ["v"]}
        made = helper.make_function("mine", "F", ["a"], ["b"], body, IMPORTS, **given)
        call = Node("F", ["x"], ["y"], domain="mine")
        call.attribute.extend([] if default else told)
        return model_of([call], functions=[made])

    training = model_of([Node("Neg", ["x"], ["y"])])
    training.training_info.add().algorithm.initializer.append(far)
    return {
        "a constant": model_of([Node("Constant", [], ["w"], value=far), add]),
        "a sparse constant": model_of([Node("Constant", [], ["w"], sparse_value=values), add]),
        "the indices of a sparse constant": model_of([Node("Constant", [], ["w"], sparse_value=indices), add]),
        "a branch": branch(held=[far]),
        "a sparse weight of a branch": branch(sparse=[values]),
        "a sparse weight": sparse_weight(values),
        "the indices of a sparse weight": sparse_weight(indices),
        "an attribute of a call": function(False),
        "an attribute of a function": function(True),
        "what it was trained with": training,
    }


def _sizes() -> dict[str, onnx.ModelProto]:
    huge = np.array([1 << 60], np.int64)
    wide = np.array([1 << 31, 1 << 31], np.int64)
    shape = {"s": huge}
    sparse = onnx.SparseTensorProto(dims=[1 << 50])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, "f4"), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64), "i"))
    with_sparse = model_of([Node("Identity", ["w"], ["y"])])
    with_sparse.graph.sparse_initializer.append(sparse)
    raw = TensorProto(name="w", data_type=1, dims=[1 << 60], raw_data=bytes(8))
    below = TensorProto(name="w", data_type=1, dims=[-1, -2], raw_data=bytes(8))
    pads = {"p": np.array([1 << 60, 1 << 60])}
    made = {
        "ConstantOfShape of 2^60": [Node("ConstantOfShape", ["s"], ["y"])],
        "Expand to 2^60": [Node("Expand", ["x", "s"], ["y"])],
        "RandomNormal of 2^60": [Node("RandomNormal", [], ["y"], shape=[1 << 60])],
        "Reshape to 2^60": [Node("Reshape", ["x", "s"], ["y"])],
        "Pad by 2^60": [Node("Pad", ["x", "s"], ["y"])],
        "Concat of 2^60": [Node("ConstantOfShape", ["s"], ["a"]), Node("Concat", ["a", "a"], ["y"], axis=0)],
        "Concat of a sequence of 2^60": [Node("ConstantOfShape", ["s"], ["a"]), Node("SplitToSequence", ["a"], ["q"]),
                                         Node("ConcatFromSequence", ["q"], ["y"], axis=0)],
        "Shape of 2^60": [Node("ConstantOfShape", ["s"], ["a"]), Node("Shape", ["a"], ["b"]),
                          Node("ConstantOfShape", ["b"], ["y"])],
    }  # fmt: skip
    found = {name: model_of(nodes, shape) for name, nodes in made.items()}
    one = {"a": np.array(0), "b": np.array(1 << 60), "c": np.array(1)}
    found |= {
        "Tile by 2^31 twice": model_of([Node("Reshape", ["x", "r"], ["z"]), Node("Tile", ["z", "s"], ["y"])],
                                       {"s": wide, "r": np.array([1, 2])}),
        "Range of 2^60": model_of([Node("Range", ["a", "b", "c"], ["y"])], one, outputs=[Info("y", 7, None)]),
        "OneHot of 2^60": model_of([Node("OneHot", ["a", "b", "v"], ["y"])], {**one, "v": np.zeros(2, "f4")}),
        "Pad of a constant by 2^60": model_of([Node("Pad", ["w", "p"], ["y"])], {"w": np.ones(2, "f4"), **pads}),
        "EyeLike of a constant": model_of([Node("Expand", ["w", "s"], ["e"]), Node("EyeLike", ["e"], ["y"])],
                                          {"w": np.ones((1, 1), "f4"), "s": wide}),
        "Resize by 10^9": model_of([Node("Reshape", ["x", "r"], ["z"]), Node("Resize", ["z", "", "f"], ["y"])],
                                   {"r": np.array([1, 1, 1, 2]), "f": np.array([1, 1, 1e9, 1e9], "f4")}),
        "Conv of 2^40": model_of([Node("Conv", ["x", "w"], ["y"], kernel_shape=[1 << 40], pads=[1 << 40] * 2)],
                                 {"w": np.ones((1, 1, 1), "f4")}, [Info("x", 1, [1, 1, 2])]),
        "CumSum of 2^40": model_of([Node("Expand", ["w", "s"], ["e"]), Node("CumSum", ["e", "a"], ["y"])],
                                   {"w": np.ones(1, "f4"), "s": np.array([1 << 40]), "a": np.array(0)}),
        "a sparse tensor of 2^50": with_sparse,
        "raw data of 2^60": model_of([Node("Identity", ["w"], ["y"])], {"w": raw}),
        "raw data below zero": model_of([Node("Identity", ["w"], ["y"])], {"w": below}),
        "an input of 2^62": model_of([Node("Neg", ["x"], ["y"])], inputs=[Info("x", 1, [1 << 62])]),
        "an input of 2^31 x 2^31": model_of([Node("Neg", ["x"], ["y"])], inputs=[Info("x", 1, [1 << 31, 1 << 31])]),
        "an input below zero": model_of([Node("Neg", ["x"], ["y"])], inputs=[Info("x", 1, [-5])]),
        "Split in 100,000": model_of([Node("Split", ["x"], [f"o{i}" for i in range(100_000)], num_outputs=100_000)],
                                     outputs=[Info("o0", 1, None)], inputs=[Info("x", 1, [100_000])]),
        "100,000 outputs": model_of([Node("Split", ["x"], [f"o{i}" for i in range(20_000)], num_outputs=20_000)],
                                    outputs=[Info(f"o{i}", 1, None) for i in range(20_000)],
                                    inputs=[Info("x", 1, [20_000])]),
        "20,000 pads that are computed": model_of([Node("Pad", ["x", "n"], ["y"])],
                                                  inputs=[Info("x", 1, [4]), Info("n", 7, [20_000])]),
        "100,000 inputs": model_of([Node("Sum", [f"x{i}" for i in range(20_000)], ["y"])],
                                   inputs=[Info(f"x{i}", 1, [1]) for i in range(20_000)]),
    }  # fmt: skip
    return found


def _worked_on() -> dict[str, onnx.ModelProto]:
    """Return small constants with an operator that computes for hours on them, doubles them for ever, or starts a
    program.
    """
    line, picture = np.ones(1000, "f4"), np.ones((1, 1, 4, 4), "f4")
    printed = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(/tmp/x) (w) file\n%%EOF\n"
    text = np.array(["a" * 60], object)
    doubled = [Node("StringConcat", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(60)]
    wide = {"pads": [1 << 29] * 4, "strides": [1 << 30] * 2, "kernel_shape": [4, 4]}

    def over(nodes: list[Any], held: dict[str, Any]) -> onnx.ModelProto:
        ends = [Node("Equal", ["v", "v"], ["e"]), Node("Cast", ["e"], ["f"], to=1),
                Node("ReduceMax", ["f"], ["m"], keepdims=0), Node("Add", ["m", "x"], ["y"])]  # fmt: skip
        return model_of([*nodes, *ends], held)

    return {
        "a sum over five labels": over([Node("Einsum", ["a"] * 5, ["v"], equation="a,b,c,d,e->")], {"a": line}),
        "samples without end": over(
            [Node("RoiAlign", ["a", "r", "n"], ["v"], sampling_ratio=1 << 20)],
            {"a": picture, "r": np.array([[0, 0, 3, 3]], "f4"), "n": np.zeros(1, np.int64)}),
        **{f"{kind} of 2^30": over([Node(kind, ["a"], ["v"], **wide)], {"a": picture})
           for kind in ("AveragePool", "MaxPool", "LpPool")},
        "steps of 2^28": over(
            [Node("ConvTranspose", ["a", "a"], ["v"], strides=[1 << 28, 1], pads=[3 << 27, 0, 3 << 27, 0])],
            {"a": picture}),
        "a pattern that never ends": over(
            [Node("RegexFullMatch", ["t"], ["v"], pattern="(a+)+b")], {"t": text}),
        "a text that doubles": over(
            [*doubled, Node("StringConcat", ["t60", "t60"], ["v"])], {"t0": text}),
        "PostScript for a picture": over(
            [Node("ImageDecoder", ["p"], ["v"])], {"p": np.frombuffer(printed, "u1")}),
    }  # fmt: skip


def _loop(rounds: Any, body: Sequence[Any], more: Sequence[str] = ("c",)) -> onnx.ModelProto:
    inner = helper.make_graph(
        list(body), "body", [Info("i", 7, []), Info("c", 9, []), Info("v", 1, None)],
        [Info(more[0], 9, []), Info("w", 1, None)],
    )  # fmt: skip
    held = {"t": np.array(True)} | ({} if rounds is None else {"n": np.array(rounds)})
    return model_of([Node("Loop", ["" if rounds is None else "n", "t", "x"], ["y"], body=inner)], held)


def _endless() -> dict[str, onnx.ModelProto]:
    def function(name: str, calls: Sequence[str]) -> Any:
        names = ["a", *(f"t{i}" for i in range(len(calls) - 1)), "b"]
        body = [Node(c, [names[i]], [names[i + 1]], domain="mine" if c[0] == "F" else "") for i, c in enumerate(calls)]
        return helper.make_function("mine", name, ["a"], ["b"], body, IMPORTS)

    def calling(name: str, functions: Sequence[Any]) -> onnx.ModelProto:
        return model_of([Node(name, ["x"], ["y"], domain="mine")], functions=functions)

    bottom = function("F0", ["Neg"])
    deep: Any = [Node("Neg", ["x"], ["y"])]
    for level in range(28):
        inner = helper.make_graph(deep, f"g{level}", [], [Info("y", 1, None)])
        deep = [Node("If", ["t"], ["y"], then_branch=inner, else_branch=inner if level < 10 else
                     helper.make_graph([Node("Neg", ["x"], ["y"])], "e", [], [Info("y", 1, None)]))]  # fmt: skip
    chain = [Node("Neg", ["x" if i == 0 else f"h{i}"], [f"h{i + 1}" if i < 29_999 else "y"]) for i in range(30_000)]
    return {
        "a Loop without end": _loop(None, [Node("Add", ["v", "v"], ["w"])]),
        "a Loop of 2^62 rounds": _loop((1 << 62), [Node("Add", ["v", "v"], ["w"])]),
        "a Loop that grows": _loop(None, [Node("Concat", ["v", "v"], ["w"], axis=0)]),
        "functions in a circle": calling("F0", [function("F0", ["F1"]), function("F1", ["F0"])]),
        "a function of itself": calling("F0", [function("F0", ["F0"])]),
        "functions that double": calling(
            "F40", [bottom, *(function(f"F{i}", [f"F{i - 1}"] * 2) for i in range(1, 41))]),
        "functions 5,000 deep": calling("F5000", [bottom, *(function(f"F{i}", [f"F{i - 1}"]) for i in range(1, 5001))]),
        "two functions of one name": calling("F0", [function("F0", ["Neg"]), function("F0", ["Exp"])]),
        "a function over an operator": model_of([Node("Neg", ["x"], ["y"])], functions=[function("Neg", ["Exp"])]),
        "graphs 28 deep": model_of(deep, {"t": np.array(True)}),
        "a chain of 30,000": model_of(chain),
        "a circle": model_of([Node("Add", ["x", "z"], ["y"]), Node("Neg", ["y"], ["z"])]),
        "one value twice": model_of([Node("Neg", ["x"], ["y"]), Node("Exp", ["x"], ["y"])]),
        "a value from nowhere": model_of([Node("Add", ["x", "gone"], ["y"])]),
    }  # fmt: skip


def _counted() -> dict[str, onnx.ModelProto]:
    """Return attributes that count loops, or name an element type that does not exist."""
    picture = [Info("x", 1, [1, 4, 8, 8])]
    held = {"w": np.ones((4, 4, 3, 3), "f4"), "s": np.ones(4, "f4"), "r": np.ones((1, 4), "f4"), "n": np.zeros(1, "i8")}
    operators = {
        "LRN": ("size", []), "Conv": ("group", ["w"]), "DepthToSpace": ("blocksize", []), "Cast": ("to", []),
        "SpaceToDepth": ("blocksize", []), "LpNormalization": ("p", []), "Bernoulli": ("dtype", []),
        "GroupNormalization": ("num_groups", ["s", "s"]), "RoiAlign": ("sampling_ratio", ["r", "n"]),
        "Softmax": ("axis", []),
    }  # fmt: skip
    return {
        f"{operator} with {name} of {number}": model_of(
            [Node(operator, ["x", *more], ["y"], **{name: number})], {key: held[key] for key in more}, picture
        )
        for operator, (name, more) in operators.items()
        for number in (99, -1, (1 << 31) - 1, 1 << 40)
    }


def _of_onnxruntime() -> dict[str, onnx.ModelProto]:
    """Operators of ONNX Runtime, which no checker knows, with missing inputs and invalid counts."""
    counts = {
        "EmbedLayerNormalization": "mask_index_type", "MultiHeadAttention": "num_heads", "GroupNorm": "groups",
        "GroupQueryAttention": "num_heads", "MatMulNBits": "bits", "QAttention": "num_heads", "QLinearConcat": "axis",
    }  # fmt: skip
    found = {}
    for operator, name in counts.items():
        for number in (99, -1, 1 << 40):
            node = Node(operator, ["x"] * 4, ["y"], domain="com.microsoft", **{name: number})
            found[f"{operator} of ONNX Runtime with {name} of {number}"] = model_of([node])
            found[f"{operator} of ONNX Runtime with {name} of {number}"].opset_import.add(
                domain="com.microsoft", version=1
            )
    return found


def _misread() -> dict[str, onnx.ModelProto]:
    """Return attributes with which ONNX's inference crashes or hangs."""
    most, index = (1 << 63) - 1, {"i": np.array([[0]])}
    return {
        "an equation of no letters": model_of([Node("Einsum", ["x"], ["y"], equation="é")], inputs=[Info("x", 1, [])]),
        "an equation of points": model_of([Node("Einsum", ["x"], ["y"], equation="....")]),
        "a normalization of an axis of 2^63": model_of([Node("LayerNormalization", ["x", "x"], ["y"], axis=most)]),
        "dims of a batch below zero": model_of([Node("GatherND", ["x", "i"], ["y"], batch_dims=-5)], index),
        "fewer parts than outputs": model_of([Node("Split", ["x"], ["y", "z"], num_outputs=1)]),
        "2^31 parts": model_of([Node("Split", ["x"], ["y", "z"], num_outputs=1 << 31)]),
    }


def _growing() -> dict[str, onnx.ModelProto]:
    """Return arithmetic on sizes whose numbers, or expressions, double with each step."""
    steps = {
        "squares": [("Mul", "s", "s", "t")],
        "quotients": [("Mul", "s", "s", "m"), ("Add", "m", "s", "d"), ("Div", "d", "s", "t")],
        "larger ones": [("Div", "s", "p", "m"), ("Sub", "s", "m", "d"), ("Max", "d", "m", "t")],
    }
    found = {}
    for name, each in steps.items():
        nodes = [Node("Shape", ["x"], ["s0"])]
        for i in range(60):
            called = {"s": f"s{i}", "t": f"s{i + 1}", "p": "p"}
            nodes += [Node(op, [called.get(v, f"{v}{i}") for v in ends[:2]], [called.get(ends[2], f"{ends[2]}{i}")])
                      for op, *ends in each]  # fmt: skip
        nodes += [Node("Cast", ["s60"], ["f"], to=1), Node("Add", ["x", "f"], ["y"])]
        found[f"sizes of {name}"] = model_of(nodes, {"p": np.array([3])}, [Info("x", 1, ["n"])])
    return found


def _others() -> dict[str, onnx.ModelProto]:
    def with_attribute(**values: Any) -> onnx.ModelProto:
        return model_of([Node("LeakyRelu", ["x"], ["y"], **values)])

    strange = "a\u202eb\x1b[31m\nforged\x9b2J\x07<script>"
    versions = [model_of([Node("Neg", ["x"], ["y"])]) for _ in range(4)]
    versions[0].opset_import[0].version = 1 << 40
    versions[1].ir_version = -1
    del versions[2].opset_import[:]
    versions[3].opset_import.add(domain="", version=9)
    # Detecting a file's kind reads only the first nodes; the frontend reads the later ones too.
    plain = [Node("Neg", ["x"], [f"p{i}"]) for i in range(SAMPLE)]
    named = model_of([*plain, Node("Odd\u202e\x1b[31m\nforged", ["x"], ["y"], name=strange, domain=strange)])
    named.graph.name = named.doc_string = strange
    last = Node("Neg", [strange], [strange + "o"])
    ends = [Info("x", 1, [2]), Info(strange, 1, [strange])]
    inputs = model_of([*plain, last], inputs=ends, outputs=[Info(strange + "o", 1, None)])
    notes = {key: model_of([Node("Neg", ["x"], ["y"])]) for key in ("dims", "guards", "range", "state")}
    for key, model in notes.items():
        for holder in (model, model.graph.input[0]):
            holder.metadata_props.add(key=f"convert.{key}", value="[" * 50_000 if key == "state" else '["n**n**n", {}]')
    return {
        **{f"a note of {key}": model for key, model in notes.items()},
        "a custom domain": model_of([Node("Shell", ["x"], ["y"], domain="os.system", cmd="touch x")]),
        "com.microsoft": model_of([Node("EPContext", ["x"], ["y"], domain="com.microsoft", ep_cache_context="/etc/x")]),
        "a Python operator": model_of([Node("PyOp", ["x"], ["y"], domain="ai.onnx.contrib", code="import os")]),
        "names with control characters": named,
        "ends with control characters": inputs,
        "an attribute of another type": with_attribute(alpha="x" * 3),
        "an attribute that is a graph": with_attribute(alpha=versions[0].graph),
        "an attribute that is a list": with_attribute(alpha=[1.0] * 3),
        "opset 2^40": versions[0],
        "IR version -1": versions[1],
        "no opset": versions[2],
        "two opsets": versions[3],
        "no graph": onnx.ModelProto(ir_version=9),
    }  # fmt: skip


def onnx_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write all files into a folder next to a secret."""
    inside = {f"{name} in {place}": model for place in ("secret", "../secret", "/etc/passwd")
              for name, model in held_inside(place).items()}  # fmt: skip
    models = _elsewhere(folder) | {"weights on the same bytes": _overlapping(folder)} | inside | _sizes()
    models |= _worked_on() | _endless() | _others() | _misread() | _growing() | _counted() | _of_onnxruntime()
    for number, (name, model) in enumerate(models.items()):
        path = folder / "model" / f"{file_name(name)}_{number}.onnx"
        path.write_bytes(model.SerializeToString())
        good = folder / "good.onnx"
        if not good.exists():
            good.write_bytes(model_of([Node("Neg", ["x"], ["y"])]).SerializeToString())
        yield Case(name, path, good=good)
        if "computed" in name or "sizes of" in name or name.startswith("LRN"):
            for form in ("torch", "torch-code", "tf-frozen", "keras", "caffe2"):
                words = ("--to", form, "-o", {"keras": "m.keras", "torch": "m.pt2"}.get(form, "m"))
                yield Case(f"{name}, to {form}", path, words, good, verbs=("convert",))
