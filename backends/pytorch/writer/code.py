"""Writes a folder of code: `model.py`, with the network as a person would write it, and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir
import torch
from safetensors.torch import save_file

from convert.errors import ConvertError, Unsupported
from convert.outcome.report import Report
from convert.passes.tidy.size_checks import checked_conditions, note_lost_checks
from convert.request.options import Options

from ..code.emitter import record
from ..code.source import source_of
from ..emit import check
from ..network import Network
from ..passes.legalize import legalize
from ..size_conditions import expressible
from ..state import Buffer
from .exported import example_sizes, fed_inputs, quiet
from .whole_rnn import whole_rnn

_STORED = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip
"""Dtypes that safetensors stores."""


def write_code(model: ir.Model, path: Path, options: Options, report: Report, buffers: Sequence[Buffer] = ()) -> None:
    """Write `model.py` and `model.safetensors` into the folder `path`. Raises `Unsupported`."""
    asked = checked_conditions(model)
    conditions = expressible(asked, fed_inputs(model, buffers))
    legalize(model, options)
    check(model)
    note_lost_checks([text for text in asked if text not in conditions], "a model in code", report)
    code, state = code_of(model, buffers, conditions)
    path.mkdir()
    (path / "model.py").write_text(code, encoding="utf-8")
    save_file(_apart(state), path / "model.safetensors", metadata={"format": "pt"})
    # safetensors makes files readable for the user only, regardless of the umask.
    (path / "model.safetensors").chmod((path / "model.py").stat().st_mode & 0o777)


def code_of(
    model: ir.Model, buffers: Sequence[Buffer] = (), conditions: Sequence[str] = ()
) -> tuple[str, dict[str, torch.Tensor]]:
    """Return the text of `model.py` for a legalized graph, and the state dict of its `Model`. Raises `Unsupported`.

    conditions: on named dims of the inputs; the code asserts them.
    """
    for value in model.graph.inputs:
        if not isinstance(value.type, ir.TensorType):
            raise Unsupported(f"the input {value.name!r} is a sequence or an optional, and no tensor")
        if value.shape is None:
            raise Unsupported(f"the rank of the input {value.name!r} is not known", hint="say it with --input")
    with quiet(), whole_rnn():
        try:
            network = Network(model, {b.place: b.initial for b in buffers})
            program = record(model, network, example_sizes(model), buffers, conditions)
        except ConvertError as error:
            if error.__cause__ is None or isinstance(error, Unsupported):
                raise
            text = " ".join(f"{error.message}: {error.__cause__}".split("\n\n")[0].split())[:400]
            raise Unsupported(f"PyTorch cannot follow the network without its data: {text}") from error
        return source_of(program)


def _apart(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return tensors that share no memory; shared ones are stored twice. Raises `Unsupported` for dtypes that cannot be
    stored.
    """
    seen: set[int] = set()
    found = {}
    for name, tensor in state.items():
        if tensor.dtype not in _STORED:
            raise Unsupported(f"safetensors does not store the weight {name!r} of dtype {tensor.dtype}")
        plain = tensor.detach().contiguous()
        found[name] = plain.clone() if plain.data_ptr() in seen else plain
        seen.add(plain.data_ptr())
    return found
