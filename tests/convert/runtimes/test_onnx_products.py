"""Sources whose products round activations to 8 bits are run without that rounding, which the graph does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from convert.backends import onnx as backend

import convert
from convert.outcome.report import Report
from convert.request.options import Options
from convert.runtimes.onnx import run_file
from convert.runtimes.onnx_products import without_rounded_activations
from convert.runtimes.onnx_stored import stored_weights
from tests.support.onnx_support import array, info, model, read

rng = np.random.default_rng(0)
X = rng.standard_normal((3, 64)).astype(np.float32)


def written(path: Path, level: str) -> Path:
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    proto = model(nodes, [info("x", ["n", 64])], [info("y", None)], [array("w", rng.standard_normal((64, 48)))])
    options = Options(quantize="int4", extra={"accuracy_level": level})
    backend.write(read(proto), path, "onnx", options, Report("test"))
    return path


def product(path: Path) -> np.ndarray:
    """Return the product with the weight as the file has it, in float64."""
    weight = next(w for w in stored_weights(path) if w.scale is not None)
    assert weight.scale is not None
    return X.astype(np.float64) @ ((weight.raw.astype(np.float64) - weight.zero) * weight.scale).T


@pytest.mark.parametrize("external", [False, True])
def test_activations_are_not_rounded(external: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", "4")
    wanted = product(path)
    if external:
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="m.data", size_threshold=0)
        assert (tmp_path / "m.data").exists()
    (found,) = run_file(path, [{"x": X}], unrounded=True)
    np.testing.assert_allclose(found["y"], wanted, rtol=0, atol=1e-6 * float(np.abs(wanted).max()))


def test_products_in_nested_graphs_are_found(tmp_path: Path) -> None:
    """A processor may have no kernel that rounds, so the attribute is compared, not the result."""
    inner = onnx.load(written(tmp_path / "m.onnx", "4")).graph
    weights = list(inner.initializer)
    del inner.initializer[:], inner.input[:]
    choice = onnx.helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    proto = model([choice], [info("c", []), info("x", ["n", 64])], [info("y", None)], weights)
    onnx.save(proto, tmp_path / "nested.onnx")
    content = without_rounded_activations(tmp_path / "nested.onnx")
    assert content is not None
    (node,) = onnx.load_from_string(content).graph.node
    levels = [
        a.i for branch in node.attribute for n in branch.g.node for a in n.attribute if a.name == "accuracy_level"
    ]
    assert levels == [0, 0]


def test_other_files_run_as_they_are(tmp_path: Path) -> None:
    assert without_rounded_activations(written(tmp_path / "m.onnx", "0")) is None


@pytest.mark.slow
def test_such_a_source_converts(tmp_path: Path) -> None:
    report = convert.convert(written(tmp_path / "m.onnx", "4"), "torch", tmp_path / "m.pt2")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any(note.code == "rounded-activations" for note in report.notes)
