"""Compare layers that TensorFlow fuses, as this backend emits them, with float64, with oneDNN on and off.

    python tests/suites/fused.py                  every combination, in child processes that may crash
    python tests/suites/fused.py FAMILY …         only these
    python tests/suites/fused.py --part 1/4       a random quarter of each family; the four together are all

It prints the combinations that are wrong. Errors of a fused kernel depend on the processor, so
`tests/backends/tensorflow/test_onednn.py` also checks the emitted graph for forms that are known to be bad.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Layer:
    """An operator with constant weights, and the dims of its input."""

    operator: str
    shape: tuple[int, ...]
    weight: tuple[int, ...]
    channels: int
    attributes: tuple[tuple[str, object], ...] = ()
    padded: tuple[int, ...] = ()
    """The pads of a Pad before it, which oneDNN fuses into the layer."""

    @property
    def channel_axis(self) -> int:
        return -1 if self.operator == "MatMul" else 1


LAYERS = {
    "conv1d": Layer("Conv", (3, 4, 9), (6, 4, 3), 6, (("pads", [1, 1]),)),
    "conv2d": Layer("Conv", (3, 4, 7, 6), (6, 4, 3, 3), 6, (("pads", [1, 0, 1, 2]),)),
    "conv2d_strided": Layer("Conv", (3, 4, 7, 6), (8, 4, 3, 3), 8, (("strides", [2, 2]),)),
    "conv2d_of_one": Layer("Conv", (3, 4, 5, 6), (8, 4, 1, 1), 8),
    "conv2d_of_one_column": Layer("Conv", (4, 1, 6, 3), (6, 1, 3, 3), 6, (("strides", [1, 2]),)),
    "conv3d_of_one_column": Layer("Conv", (2, 1, 3, 6, 4), (4, 1, 2, 3, 3), 4, (("strides", [1, 1, 2]),)),
    "conv3d": Layer("Conv", (2, 3, 5, 4, 6), (4, 3, 3, 3, 3), 4, (("pads", [1] * 6),)),
    "grouped": Layer("Conv", (3, 4, 7, 6), (6, 2, 3, 3), 6, (("group", 2), ("pads", [1] * 4))),
    "grouped3d": Layer("Conv", (2, 4, 5, 4, 6), (4, 2, 3, 3, 3), 4, (("group", 2),)),
    "depthwise": Layer("Conv", (3, 4, 7, 6), (4, 1, 3, 3), 4, (("group", 4), ("pads", [1] * 4))),
    "depthwise_doubled": Layer("Conv", (3, 4, 7, 7), (8, 1, 3, 3), 8, (("group", 4), ("strides", [2, 2]))),
    "depthwise_padded": Layer(
        "Conv", (3, 4, 7, 8), (4, 1, 3, 3), 4, (("group", 4), ("pads", [1] * 4), ("strides", [2, 2]))
    ),
    "conv2d_of_more_channels": Layer("Conv", (3, 3, 7, 6), (6, 4, 3, 3), 6, (), (0, 0, 1, 0, 0, 1, 0, 2)),
    "conv2d_in_its_pads": Layer("Conv", (1, 3, 1, 2), (6, 3, 1, 1), 6, (("pads", [0, 0, 0, 1]), ("strides", [1, 2]))),
    "conv2d_in_pads": Layer("Conv", (1, 2, 2, 2), (6, 2, 2, 1), 6, (("strides", [2, 2]),), (0, 0, 0, 0, 0, 0, 1, 1)),
    "conv1d_in_pads": Layer("Conv", (1, 2, 3), (6, 2, 2), 6, (("strides", [2]),), (0, 0, 1, 0, 0, 2)),
    "conv3d_of_more_channels": Layer("Conv", (2, 1, 5, 4, 6), (4, 3, 3, 3, 3), 4, (), (0, 2, 0, 0, 0, 0, 0, 1, 0, 0)),
    "conv3d_behind_pad": Layer(
        "Conv", (2, 3, 5, 4, 6), (4, 3, 3, 3, 3), 4, (("pads", [1] * 6),), (0, 0, 2, 1, 1, 0, 0, 0, 1, 1)
    ),
    "transposed1d": Layer("ConvTranspose", (3, 4, 5), (4, 6, 3), 6, (("strides", [2]),)),
    "transposed2d": Layer("ConvTranspose", (3, 4, 5, 4), (4, 6, 3, 3), 6, (("strides", [2, 2]),)),
    "transposed3d": Layer("ConvTranspose", (2, 3, 3, 4, 3), (3, 4, 2, 2, 2), 4),
    "matmul": Layer("MatMul", (5, 20), (20, 32), 32),
    "matmul_of_rank_3": Layer("MatMul", (3, 5, 20), (20, 32), 32),
    "matmul_of_rank_4": Layer("MatMul", (3, 1, 5, 20), (20, 32), 32),
    "matmul_of_rank_5": Layer("MatMul", (2, 3, 1, 5, 20), (20, 32), 32),
    "batches_of_rank_3": Layer("MatMul", (3, 5, 20), (3, 20, 32), 32),
    "batches_of_rank_4": Layer("MatMul", (3, 2, 5, 20), (1, 2, 20, 32), 32),
    "batches_broadcast": Layer("MatMul", (3, 1, 5, 20), (1, 2, 20, 32), 32),
    "batches_of_one": Layer("MatMul", (3, 1, 5, 20), (1, 1, 20, 32), 32),
    "batches_of_one_row": Layer("MatMul", (1, 6, 1, 20), (1, 6, 20, 1), 1),
    "batches_of_rank_5": Layer("MatMul", (2, 3, 2, 5, 20), (3, 1, 20, 32), 32),
}
ADDED = ("bias", "vector", "wider", "one_wider", "wider_negative", "longer", "scalar", "none")
"""The operand added to the result.

It is the operator's own bias (for MatMul a vector), a vector, a tensor of higher rank than the result, one number of
that rank after a vector, a subtracted negative, an operand that broadcasts dims of 1 of half a product (for other
layers a vector), a number, or nothing.
"""

ACTIVATIONS = {
    "none": (),
    "Relu": (("Relu", {}),),
    "Relu6": (("Clip6", {}),),
    "LeakyRelu": (("LeakyRelu", {"alpha": 0.2}),),
    "Elu": (("Elu", {}),),
    "Sigmoid": (("Sigmoid", {}),),
    "Tanh": (("Tanh", {}),),
    "Gelu": (("Gelu", {}),),
    "GeluTanh": (("Gelu", {"approximate": "tanh"}),),
    "Swish": (("Swish", {}),),
    "HardSwish": (("HardSwish", {}),),
    "Mish": (("Mish", {}),),
    "Softplus": (("Softplus", {}),),
    "Selu": (("Selu", {}),),
    "MaxSlope": (("MaxSlope", {"slope": 0.25}),),
    "MaxMultiple": (("MaxSlope", {"slope": 1.5}),),
    "sum": (("Sum", {}),),
    "sum_and_Relu": (("Sum", {}), ("Relu", {})),
    "sum_and_LeakyRelu": (("Sum", {}), ("LeakyRelu", {"alpha": 0.2})),
}
DTYPES = {"float32": onnx.TensorProto.FLOAT, "float16": onnx.TensorProto.FLOAT16, "bfloat16": onnx.TensorProto.BFLOAT16}
_ERROR = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1.2e-1}
"""The tolerance relative to the largest element: sums of at most 108 products, and the operators that follow."""


def combinations(families: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield family, added operand, activation and dtype: all in float32, in half precision those that fuse."""
    for family, added, act in itertools.product(families, ADDED, ACTIVATIONS):
        yield family, added, act, "float32"
    for family, added, act in itertools.product(families, ("bias", "none"), ("none", "Relu", "LeakyRelu", "Gelu")):
        yield family, added, act, "float16"
        yield family, added, act, "bfloat16"


def part_of(family: str, part: int, parts: int) -> list[tuple[str, str, str, str]]:
    """Return the random share `part` (from 1) of `parts` of a family; the shares are disjoint."""
    rows = list(combinations([family]))
    random.Random(zlib.crc32(family.encode())).shuffle(rows)
    return rows[part - 1 :: parts]


def weights_of(layer: Layer, name: str) -> dict[str, np.ndarray]:
    """Return float64 numbers that float16 represents exactly."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    draw = lambda *shape: generator.integers(-64, 65, shape) / 64.0  # noqa: E731
    return {"w": draw(*layer.weight) / 4, "b": draw(layer.channels), "x": draw(*layer.shape)}


def model_of(family: str, added: str, act: str, dtype: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return one layer as a model with dynamic batch size, and its arrays in float64."""
    layer, kind = LAYERS[family], DTYPES[dtype]
    arrays = weights_of(layer, family)
    product = layer.operator == "MatMul"
    inputs = ["x", "w", *(["b"] if added == "bias" and not product else [])]
    nodes = [helper.make_node(layer.operator, inputs, ["h"], **dict(layer.attributes))]
    held = {k: arrays[k] for k in inputs[1:]}
    at = "h"
    if layer.padded:
        nodes[0].input[0] = "padded"
        nodes.insert(0, helper.make_node("Pad", ["x", "pads"], ["padded"]))
    if added in ("vector", "scalar") or (added == "bias" and product):
        row = np.array(0.375) if added == "scalar" else arrays["b"]
        held["a"] = row if product or row.ndim == 0 else row.reshape(-1, *[1] * (len(layer.shape) - 2))
        nodes.append(helper.make_node("Add", [at, "a"], ["added"]))
        at = "added"
    if added == "longer":
        held |= {"half": np.array(0.5), "a": arrays["b"].reshape(-1, *[1] * (len(layer.shape) - 2))}
        if product:
            rows = 2 if layer.shape[-2] == 1 else 1
            held["a"] = np.arange(rows * 4 if layer.channels == 1 else rows).reshape(
                *[1] * (len(layer.shape) - 2), rows, -1
            )
        nodes.append(helper.make_node("Mul", [at, "half"], ["halved"]))
        nodes.append(helper.make_node("Add", ["halved", "a"], ["added"]))
        at = "added"
    if added in ("wider", "one_wider", "wider_negative"):
        rank = len(layer.shape)
        row = arrays["b"] if product else arrays["b"].reshape(-1, *[1] * (rank - 2))
        held["a"] = row.reshape((1,) * (rank + 1 - row.ndim) + row.shape)
        if added == "one_wider":
            held |= {"v": row, "a": np.full((1,) * (rank + 1), 0.375)}
            nodes.append(helper.make_node("Add", [at, "v"], ["row"]))
            at = "row"
        if added == "wider_negative":  # a number from an input, because constants are folded
            nodes.append(helper.make_node("ReduceMin", ["x"], ["least"]))
            nodes.append(helper.make_node("Mul", ["a", "least"], ["much"]))
            nodes.append(helper.make_node("Neg", ["much"], ["opposite"]))
            nodes.append(helper.make_node("Sub", [at, "opposite"], ["added"]))
        else:
            nodes.append(helper.make_node("Add", [at, "a"], ["added"]))
        at = "added"
    for number, (operator, attributes) in enumerate(ACTIVATIONS[act]):
        at = _activate(nodes, held, at, operator, attributes, f"s{number}")
    nodes[-1].output[0] = "y"
    tensors = [helper.make_tensor(k, kind, v.shape, v.ravel().tolist()) for k, v in held.items()]
    if layer.padded:
        tensors.append(onnx.numpy_helper.from_array(np.array(layer.padded, np.int64), "pads"))
    x = helper.make_tensor_value_info("x", kind, ["n", *layer.shape[1:]])
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph(nodes, "layer", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model), arrays


def _activate(
    nodes: list[onnx.NodeProto], held: dict[str, np.ndarray], at: str, operator: str, attributes: dict, out: str
) -> str:
    if operator == "Clip6":
        held |= {"zero": np.array(0.0), "six": np.array(6.0)}
        nodes.append(helper.make_node("Clip", [at, "zero", "six"], [out]))
    elif operator == "MaxSlope":
        held["slope"] = np.array(attributes["slope"])
        nodes.append(helper.make_node("Mul", [at, "slope"], [f"{out}_low"]))
        nodes.append(helper.make_node("Max", [at, f"{out}_low"], [out]))
    elif operator == "Sum":  # a sum of two branches, as in a residual connection
        place = int(nodes[0].op_type == "Pad")
        first = nodes[place]
        nodes.insert(place, helper.make_node("Neg", [first.input[0]], ["minus"]))
        other = helper.make_node(first.op_type, ["minus", *first.input[1:]], ["other"])
        other.attribute.extend(first.attribute)
        nodes.insert(place + 1, other)
        nodes.append(helper.make_node("Mul", ["other", "other"], ["square"]))
        nodes.append(helper.make_node("Add", [at, "square"], [out]))
    else:
        nodes.append(helper.make_node(operator, [at], [out], **attributes))
    return out


def exact(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the result in float64, from ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator

    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.name == "pads":
            continue
        content = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(onnx.numpy_helper.from_array(content, tensor.name))
    del wide.graph.value_info[:]
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return ReferenceEvaluator(wide).run(None, {"x": arrays["x"]})[0]


_PRIVATE = ("variables", "constants")
CHILD = "child"


def run_child(folder: Path) -> None:
    """Run each model in `folder` with variables and with constants; print a line at the start and the end of each."""
    import tensorflow as tf

    import convert

    for file in sorted(folder.glob("*.onnx")):
        for weights in _PRIVATE:
            print("begin", file.stem, weights, flush=True)
            try:
                path = folder / f"{file.stem}.{weights}"
                how = {} if weights == "variables" else {"weights": "constants"}
                convert.convert(file, "tf", path, verify=False, force=True, **how)
                call = tf.saved_model.load(str(path)).signatures["serving_default"]
                kind = call.structured_input_signature[1]["x"].dtype
                x = tf.cast(tf.constant(np.load(folder / f"{file.stem}.x.npy")), kind)
                found = [tf.cast(call(x=x)["y"], tf.float64).numpy() for _ in range(2)]
                np.save(folder / f"{file.stem}.{weights}.npy", np.stack(found))
                print("end", file.stem, weights, flush=True)
            except Exception as error:
                print("refused", file.stem, weights, " ".join(str(error).split())[:200], flush=True)


def run_family(family: str, onednn: str, chosen: list[tuple[str, str, str, str]] | None = None) -> list[str]:
    """Return the errors of a family, a line each.

    Its models run in one child process, which is restarted after a crash.
    """
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fused-") as name:
        folder, expected = Path(name), {}
        for row in chosen or combinations([family]):
            model, arrays = model_of(*row)
            stem = "-".join(row)
            expected[stem] = (exact(model, arrays), row[-1])
            (folder / f"{stem}.onnx").write_bytes(model.SerializeToString())
            np.save(folder / f"{stem}.x.npy", arrays["x"].astype(np.float32))
        while list(folder.glob("*.onnx")):
            wrong += _one_child(folder, onednn)
        for stem, (want, dtype) in expected.items():
            for weights in _PRIVATE:
                file = folder / f"{stem}.{weights}.npy"
                if not file.exists():
                    told = any(line.startswith(f"{stem} {weights} ") for line in wrong)
                    wrong += [] if told else [f"{stem} {weights} onednn={onednn}: it did not run"]
                elif (error := _distance(np.load(file), want)) > _ERROR[dtype]:
                    wrong.append(f"{stem} {weights} onednn={onednn}: {error:.3g} of the largest element")
    return wrong


def _one_child(folder: Path, onednn: str) -> list[str]:
    environment = {
        **os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)
    }  # fmt: skip
    command = [sys.executable, __file__, CHILD, str(folder)]
    told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines = [line.split(" ", 3) for line in told.stdout.splitlines() if line.startswith(("begin", "end", "refused"))]
    for file in [folder / f"{line[1]}.onnx" for line in lines]:
        file.unlink(missing_ok=True)
    found = [f"{line[1]} {line[2]} onednn={onednn}: {line[3]}" for line in lines if line[0] == "refused"]
    if told.returncode or not lines:
        last = " ".join(lines[-1][1:3]) if lines else "nothing ran"
        found.append(f"{last} onednn={onednn}: the process ended with {told.returncode}")
        if not lines:
            for file in folder.glob("*.onnx"):
                file.unlink()
    return found


def _distance(found: np.ndarray, want: np.ndarray) -> float:
    if found.shape[1:] != want.shape:
        return float("inf")
    return float(np.abs(found - want).max() / max(np.abs(want).max(), 1e-30))


def main() -> None:
    """Print the errors of each family, and the number of models that ran."""
    if sys.argv[1:2] == [CHILD]:
        run_child(Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(LAYERS))
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N shares of each family")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    total = {"combinations": 0, "runs": 0, "wrong": 0}
    for family in given.families or LAYERS:
        rows = part_of(family, part, parts)
        wrong = [line for onednn in ("1", "0") for line in run_family(family, onednn, rows)]
        counts = {"combinations": len(rows), "runs": len(rows) * 4, "wrong": len(wrong)}
        total = {name: total[name] + count for name, count in counts.items()}
        print("\n".join([*wrong, json.dumps({"family": family, **counts})]), flush=True)
    print(json.dumps(total))


if __name__ == "__main__":
    main()
