"""The official ONNX backend test cases: the generated node cases and the model sets that the onnx package ships."""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from convert.frontends.caffe2.runner.runner import VARIABLE
from onnx import numpy_helper

SETS = ("node", "light", "simple", "pytorch-converted", "pytorch-operator")
OLD_SET = "onnx-1.8.1"
"""The node cases of an older onnx, from the Python that CONVERT_CAFFE2_PYTHON names."""

Data = Sequence[tuple[dict[str, Any], list[Any]]]
"""Pairs of inputs by name and expected outputs in order: arrays, lists for sequences, None for absent optionals."""


@dataclass(frozen=True)
class NodeCase:
    """A model, its inputs, its expected outputs, and the suite's own tolerances."""

    name: str
    kind: str
    model: onnx.ModelProto
    data: Data
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        """Return the operator under test: that of the last node, or the one that was expanded."""
        if self.kind not in ("node", OLD_SET):
            return self.kind
        node = self.model.graph.node[-1]
        expanded = re.fullmatch(r"test_(\w+?)_expanded(_ver\d+)?", self.name)
        name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        return f"{expanded_operator(expanded[1])} (expanded)" if expanded else name


def cases(sets: Iterable[str] = SETS, only: str = "") -> list[NodeCase]:
    """Return the cases of `sets` whose name contains `only`, sorted by name within each set."""
    found: list[NodeCase] = []
    for kind in sets:
        found.extend(sorted(_LOADERS[kind](kind, only), key=lambda c: c.name))
    return found


def expanded_operator(name: str) -> str:
    """Return the operator that a function-expanded case tests, by the case's name; its family if the name leaves that
    open.
    """
    squeezed = name.replace("_", "")
    matches = [s.name for s in onnx.defs.get_all_schemas() if squeezed.startswith(s.name.lower())]
    return max(matches, key=len, default="function")


def _node_cases(kind: str, only: str) -> Iterator[NodeCase]:
    from tests.support.onnx_support import made_node_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tests = made_node_tests()
    for test in tests:
        if only in test.name:
            data = [
                (dict(zip(_names(test.model), map(_array, given), strict=True)), [_array(y) for y in wanted])
                for given, wanted in test.data_sets
            ]
            yield NodeCase(test.name, kind, test.model, data, test.rtol, test.atol)


def _stored_cases(kind: str, only: str) -> Iterator[NodeCase]:
    from onnx.backend.test.loader import load_model_tests

    for test in load_model_tests(kind=kind):
        if only not in test.name or test.model_dir is None:
            continue
        yield _stored(Path(test.model_dir), test.name, kind, test.rtol, test.atol)


def _old_cases(kind: str, only: str) -> Iterator[NodeCase]:
    """Return the same as `_stored_cases`, from the folders of another Python's onnx, with their tolerances."""
    command = [os.environ[VARIABLE], "-I", "-c", "import onnx; print(onnx.__version__, onnx.__file__)"]
    version, _, file = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().partition(" ")
    assert f"onnx-{version}" == kind, f"{VARIABLE} names a Python with onnx {version}"
    for folder in sorted((Path(file).parent / "backend" / "test" / "data" / "node").iterdir()):
        if only in folder.name:
            yield _stored(folder, folder.name, kind, 1e-3, 1e-7)


def _stored(folder: Path, name: str, kind: str, rtol: float, atol: float) -> NodeCase:
    model = onnx.load(folder / "model.onnx")
    inputs = [v for v in model.graph.input if v.name in _names(model)]
    data = []
    for stored in sorted(folder.glob("test_data_set_*")):
        given = [_parsed(stored / f"input_{i}.pb", v.type) for i, v in enumerate(inputs)]
        wanted = [_parsed(stored / f"output_{i}.pb", v.type) for i, v in enumerate(model.graph.output)]
        data.append((dict(zip(_names(model), given, strict=True)), wanted))
    return NodeCase(name, kind, model, data, rtol, atol)


def _light_cases(kind: str, only: str) -> Iterator[NodeCase]:
    """Yield well-known networks with generated weights; the input is a ramp, as in onnx's own runner."""
    from onnx.backend.test.loader import load_model_tests

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for test in load_model_tests(kind="real"):
        if only not in test.name or test.url is None:
            continue
        path = folder / "light" / Path(test.url).name
        model = onnx.load(path)
        (name,) = _names(model)
        value = next(v for v in model.graph.input if v.name == name)
        shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        ramp = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
        wanted = [
            _parsed(path.with_name(f"{path.stem}_output_{i}.pb"), v.type) for i, v in enumerate(model.graph.output)
        ]
        yield NodeCase(test.name, kind, model, [({name: ramp}, wanted)], test.rtol, test.atol)


_LOADERS = {
    "node": _node_cases,
    OLD_SET: _old_cases,
    "light": _light_cases,
    "simple": _stored_cases,
    "pytorch-converted": _stored_cases,
    "pytorch-operator": _stored_cases,
}


def _names(model: onnx.ModelProto) -> list[str]:
    """Return the names of the inputs."""
    weights = {t.name for t in model.graph.initializer}
    return [v.name for v in model.graph.input if v.name not in weights]


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _parsed(path: Path, kind: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))
