"""The reference executor: it runs nets without Caffe2, and refuses what the runtime would compute wrongly.

`convert verify` uses it if no Caffe2 is configured, in float32 (as the runtime computes) and in float64. Every operator
case of the test table runs with both and must be equal (tests/backends/caffe2/executor).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from convert import limits
from convert.errors import BadInput, ConvertError, Location, Unsupported
from convert.files.caffe2.folder import read_folder
from convert.files.caffe2.netdef import DTYPES, Model, Net, Op, walk

from . import kernels  # noqa: F401  (fills the table)
from .kernels.table import Array, ExecutorRun, kernel


def available() -> str:
    """Return an empty string: it has no further requirements."""
    return ""


def execute(folder: Path, feeds: Sequence[Mapping[str, np.ndarray]], wide: bool = False) -> list[dict[str, Array]]:
    """Run the nets in `folder` on each of `feeds`; return outputs by name, in the order of external_output.

    With `wide`, all floating-point values are float64 from the start. Raises `BadInput` for a folder without nets,
    `Unsupported` for operators that it lacks, and `ConvertError` if the runtime would fail or be wrong.
    """
    model = read_folder(folder)
    check(model)
    state = ExecutorRun(wide)
    weights: dict[str, Array] = {name: state.widen_array(array) for name, array in model.blobs.items()}
    run_net(state, model.init, weights)
    return [_outputs(state, model, weights, feed) for feed in feeds]


def check(model: Model) -> None:
    """Raise one `Unsupported` that lists every operator that the executor lacks."""
    operators = [op for net in (model.init, model.predict) for op in walk(net)]
    kernel.check((op.type, location(op)) for op in operators)


def _outputs(
    state: ExecutorRun, model: Model, weights: Mapping[str, Array], feed: Mapping[str, Array]
) -> dict[str, Array]:
    if sorted(feed) != sorted(model.inputs):
        raise ConvertError(f"the net takes {sorted(model.inputs)}, not {sorted(feed)}")
    blobs = dict(weights)
    for name, array in feed.items():
        if array.dtype not in {d.numpy() for d in DTYPES.values()}:
            raise ConvertError(f"Caffe2 has no {array.dtype} tensors (the input {name!r})")
        blobs[name] = state.widen_array(array)
    run_net(state, model.predict, blobs)
    missing = [name for name in model.predict.outputs if name not in blobs]
    if missing:
        raise BadInput(f"no operator makes the output {missing[0]!r}")
    return {name: blobs[name] for name in model.predict.outputs}


def run_net(state: ExecutorRun, net: Net, blobs: dict[str, Array]) -> None:
    """Run the operators of `net` in the workspace `blobs`, which they change."""
    for op in net.ops:
        if op.type in _CONTROL:
            _CONTROL[op.type](state, op, blobs)
            continue
        inputs = [_blob(blobs, name, op) for name in op.inputs]
        with np.errstate(all="ignore"):
            found = kernel.apply(state, op.type, inputs, _arguments(op), location(op))
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(results) < len(op.outputs):
            raise ConvertError(f"{location(op)}: it makes {len(results)} outputs, and the net names {len(op.outputs)}")
        blobs.update(zip(op.outputs, results, strict=False))


def _arguments(op: Op) -> dict[str, object]:
    given: dict[str, object] = dict(op.args)
    if "outputs" in kernel.entries[op.type].keyword:
        given["outputs"] = len(op.outputs)
    return given


def _if(state: ExecutorRun, op: Op, blobs: dict[str, Array]) -> None:
    branch = op.args.get("then_net" if _is_true(_blob(blobs, op.inputs[0], op), op) else "else_net")
    if isinstance(branch, Net):
        run_net(state, branch, blobs)


def _while(state: ExecutorRun, op: Op, blobs: dict[str, Array]) -> None:
    condition, body = op.args.get("cond_net"), op.args["loop_net"]
    assert isinstance(body, Net)
    for _ in range(limits.CAFFE2_LOOP_TURNS):
        if isinstance(condition, Net):
            run_net(state, condition, blobs)
        if not _is_true(_blob(blobs, op.inputs[0], op), op):
            return
        run_net(state, body, blobs)
    raise ConvertError(f"{location(op)}: it takes more than {limits.CAFFE2_LOOP_TURNS:,} iterations")


_CONTROL = {"If": _if, "While": _while}


def _is_true(condition: Array, op: Op) -> bool:
    if condition.dtype != np.bool_ or condition.size != 1:
        raise ConvertError(f"{location(op)}: its condition is {condition.dtype} of shape {condition.shape}")
    return bool(condition.reshape(())[()])


def _blob(blobs: Mapping[str, Array], name: str, op: Op) -> Array:
    if name not in blobs:
        raise BadInput(f"{location(op)}: it reads the blob {name!r}, which nothing has made")
    return blobs[name]


def location(op: Op) -> Location:
    """Return the location of an operator, named after the first blob that it writes."""
    return Location(op.type, op.outputs[0] if op.outputs else "")


@kernel("If", "While")
def _control(state: ExecutorRun) -> None:
    """Registers the control operators in the table; `run_net` runs them itself, because they change the workspace."""
    raise Unsupported("a control operator outside a net")


kernel.gap("it calls any operator of PyTorch, and the executor has none of them: set CONVERT_CAFFE2_PYTHON", "ATen")
