"""The JSON of `--json` matches convert/cli/json.md: every field is documented, and every documented field exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from convert.cli import cli
from convert.outcome.notes import Note
from convert.outcome.report import SCHEMA_VERSION, Report, to_json
from convert.outcome.verdict import GenerationVerdict, Latency, LayerLoss, OutputVerdict, Reduced, Slice, Verdict

pytestmark = pytest.mark.not_core

ROOT = Path(__file__).resolve().parents[2]
TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "list",
    dict: "object",
    type(None): "null",
}
# MAPS have names of operators or stages as keys; CLOSED are documented as another field, or not at all.
MAPS = {"operators", "seconds", "bounds", "renamed.inputs", "renamed.outputs", "verdict.latency.threads"}
CLOSED = {"details", "steps[].verdict"}


def documented() -> dict[str, set[str]]:
    """Return the types of each field in the table of convert/cli/json.md."""
    section = (ROOT / "convert/cli/json.md").read_text().split("## The report as JSON\n")[1].split("\n## ")[0]
    found = {}
    for names, types in re.findall(r"^\| (`.+?`) \| ([a-z ]+) \|", section, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in found, name
            found[name] = set(types.split(" or "))
    return found


def fields(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Return every field of a report with its type; elements of a list are NAME[], values of a map NAME{}."""
    if path:
        yield path, TYPES.get(type(data), "null")
    if path in CLOSED:
        return
    if isinstance(data, dict):
        for key, value in data.items():
            name = f"{path}{{}}" if path in MAPS else f"{path}.{key}" if path else key
            yield from fields(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from fields(value, f"{path}[]")


def model(path: Path, operator: str = "Gemm", weight: float = 1.0, domain: str = "") -> Path:
    """Return a layer and Tanh; the weight is listed as an input with a default, as in old files, which causes a
    note.
    """
    array = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3) * np.float32(weight)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["h"], "head", domain=domain), helper.make_node("Tanh", ["h"], ["y"])],
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(array, "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    sizes = {"convert.dims": '{"batch": [1, 8]}', "convert.guards": '["batch % 5 != 0"]'}
    helper.set_model_props(made, sizes)
    onnx.save(made, path)
    return path


def weights(path: Path) -> Path:
    """Return a file of one tensor, which `inspect` lists."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    return path


def noisy(path: Path) -> Path:
    """Return a model with the same inputs and outputs, and random numbers in place of the layer, which the verdict
    notes.
    """
    made = onnx.load(model(path))
    made.graph.node[1].CopyFrom(helper.make_node("RandomNormalLike", ["h"], ["y"]))
    onnx.save(made, path)
    return path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return reports of every kind: an inspection, conversions, a chain that breaks, noise, an unsupported operator."""
    folder = tmp_path_factory.mktemp("json")
    right, wrong = model(folder / "right.onnx"), model(folder / "wrong.onnx", weight=1.01)
    dotted = folder / "dotted.onnx"
    dotted.write_bytes(right.read_bytes().replace(b"\x01x", b"\x01.").replace(b"\x01y", b"\x01/"))
    custom = model(folder / "custom.onnx", "Unheard", domain="mine")
    drawn = noisy(folder / "drawn.onnx")
    runs = [
        (["inspect", right], 0),
        (["inspect", right, "--nodes", "*"], 0),
        (["inspect", weights(folder / "weights.safetensors")], 0),
        ([right, "--to", "onnx", "-o", folder / "new.onnx"], 0),
        ([right, "--to", "onnx", "-o", folder / "narrow.onnx", "--quantize", "int8"], 0),
        ([dotted, "--to", "keras", "-o", folder / "new.keras", "--no-verify"], 0),
        (["verify", right, right, wrong, "--report", folder / "out.html"], 3),
        (["verify", right, drawn], 3),
        ([custom, "--to", "tf", "-o", folder / "new.savedmodel"], 4),
    ]
    found = []
    for words, code in runs:
        done = CliRunner().invoke(cli, [*map(str, words), "--json"])
        assert done.exit_code == code, done.output
        assert done.stdout.count("\n") == 1
        found.append(json.loads(done.stdout, parse_constant=lambda text: pytest.fail(f"{text} is no JSON")))
        assert found[-1]["exit_code"] == code
    departed = GenerationVerdict("INCONCLUSIVE", 32, 2, 7, "a tie", 1e-6, 2e-6)
    row = OutputVerdict("y", slices=[Slice("y[0]", 4, 61.5, 1.0, 0.0)])
    note = Note("Relu: why", code="special-values", operators=["Relu"])
    latency = Latency(1e-3, 2e-3, "seed 0", 5, 2, {4: 1e-3})
    reduced = Reduced("part.onnx", "part.npz", "", 1, 8, ["Conv"], "tf", "y: error", 3, smallest=True)
    layers = [LayerLoss("n", "Conv", "stem", "net.py:7", 21.0, 40.0)]
    more: dict[str, Any] = {"generation": departed, "latency": latency, "reduced": reduced, "layers": layers}
    verdict = Verdict("PASS", outputs=[row], notes=[note], **more)
    generated = Report("verify", verdict=verdict)
    return [*found, json.loads(generated.to_json())]


@pytest.mark.slow
def test_every_field_is_documented_with_its_type(told: list[dict[str, Any]]) -> None:
    table = documented()
    assert len(table) > 60
    for report in told:
        for name, kind in fields(report):
            # A list or map without a row of its own is documented by the row of its elements.
            known = table.get(name) or ({"list"} if f"{name}[]" in table else set()) | (
                {"object"} if f"{name}{{}}" in table else set()
            )
            assert kind in known or (kind == "integer" and "number" in known), (name, kind)


def test_every_documented_field_comes(told: list[dict[str, Any]]) -> None:
    come = {name for report in told for name, _ in fields(report)}
    come |= {name.replace("steps[].verdict", "verdict") for name in come}
    assert sorted(set(documented()) - come) == []


def test_the_version_is_that_of_the_document(told: list[dict[str, Any]]) -> None:
    assert f"`schema` is its version, now {SCHEMA_VERSION}:" in (ROOT / "convert/cli/json.md").read_text()
    assert {report["schema"] for report in told} == {SCHEMA_VERSION}


def test_numbers_that_are_not_finite_are_null() -> None:
    report = Report("verify", seconds={"a": float("inf"), "b": 1.5}, details={"x": [float("nan"), np.float64("-inf")]})
    back = json.loads(report.to_json())
    assert back["seconds"] == {"a": None, "b": 1.5}
    assert back["details"] == {"x": [None, None]}
    assert to_json({"y": (1, 2)}) == '{"y": [1, 2]}'
