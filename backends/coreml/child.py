"""The process in which coremltools converts: `python … convert.backends.coreml.child FOLDER`.

FOLDER holds the program and its facts: inputs with their dtypes and dims, and the names of outputs. The process writes
the package and its answer into FOLDER.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

UNUSED = ("sklearn", "xgboost", "libsvm", "tensorflow", "executorch")
"""Packages that coremltools imports if they are there, which takes seconds, and which this conversion does not use."""
OLDEST = "iOS17"
"""The oldest system that runs the file; on a Mac, that is macOS 14."""


def convert(folder: Path) -> dict[str, Any]:
    """Write `model.mlpackage` to the folder, and return the inputs, outputs and weights read back from it."""
    import coremltools
    import torch

    from .package import write_package
    from .reading import read_back

    register_operators()
    facts = json.loads((folder / "facts.json").read_text())
    # coremltools 9 takes programs of this dialect only; their operators do not write in place.
    program = torch.export.load(folder / "model.pt2").run_decompositions({})
    _check_dims(program, facts["inputs"])
    model = coremltools.convert(
        program,
        inputs=_inputs(facts["inputs"]),
        outputs=[coremltools.TensorType(name=name) for name in facts["outputs"]],
        convert_to="mlprogram",
        minimum_deployment_target=getattr(coremltools.target, OLDEST),
        compute_precision=coremltools.precision.FLOAT32,  # by default weights and activations become float16
        skip_model_load=True,
    )
    target = folder / "model.mlpackage"
    write_package(model.get_spec(), Path(model.weights_dir), target)
    return read_back(target, [*program.state_dict.values(), *program.constants.values()])


def _check_dims(program: Any, rows: list[dict[str, Any]]) -> None:
    """Raise `ValueError` if PyTorch has fixed a dynamic dim: run_decompositions of PyTorch 2.13 does so in an LSTM."""
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    for name, row in zip(program.graph_signature.user_inputs, rows, strict=True):
        for size, dim in zip(values[name].shape, row["shape"], strict=True):
            if str(size).isdigit() and not isinstance(dim, int):
                raise ValueError(f"PyTorch fixes the dim {dim[0]} of {row['name']}: fix it with a number in --input")


def _inputs(rows: list[dict[str, Any]]) -> list[Any]:
    """Return the types of the inputs. Dims of the same name share one symbol, so that coremltools knows that they are
    equal.
    """
    import coremltools
    import numpy as np

    dims: dict[str, Any] = {}
    types = []
    for row in rows:
        shape = []
        for dim in row["shape"]:
            if isinstance(dim, int):
                shape.append(dim)
                continue
            name, low, high = dim
            if name not in dims:
                dims[name] = coremltools.RangeDim(low, high, low, symbol=name)
            shape.append(dims[name])
        types.append(coremltools.TensorType(name=row["name"], shape=tuple(shape), dtype=np.dtype(row["dtype"]).type))
    return types


def register_operators() -> None:
    """Let coremltools convert recurrent layers of an exported program; version 9 converts those of TorchScript only.

    Its rules add one value per output. A node of an exported program has one value, the tuple of all outputs.
    """
    from coremltools.converters.mil.frontend.torch import ops
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY as registry

    for name, count in (("lstm", 3), ("gru", 2), ("rnn_tanh", 2), ("rnn_relu", 2)):
        if f"{name}.input" not in registry.name_to_func_mapping:
            registry.set_func_by_name(_with_one_value(getattr(ops, name), count), f"{name}.input")


def _with_one_value(rule: Any, count: int) -> Any:
    def convert_node(context: Any, node: Any) -> None:
        names = [f"{node.name}__output_{index}" for index in range(count)]  # the other nodes have names such as lstm_1
        rule(context, SimpleNamespace(**{**vars(node), "outputs": names}))
        context.add(tuple(context[name] for name in names), torch_name=node.name)

    return convert_node


def main(folder: Path) -> None:
    """Convert, and write either what was read back or the error to `answer.json`."""
    try:
        answer = convert(folder)
    except Exception as error:  # any exception: coremltools passes on the exceptions of its rules
        answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[-500:]}"}
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(UNUSED))
    main(Path(sys.argv[1]))
