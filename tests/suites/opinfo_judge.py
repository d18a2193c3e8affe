"""Judges one sample of PyTorch's operator table: converts it, runs it in onnxruntime and compares it with PyTorch."""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from convert.backends.onnx import to_proto
from convert.frontends.pytorch.capture import inference
from convert.frontends.pytorch.exported import lower
from convert.frontends.pytorch.rules import aten
from opinfo_compare import difference
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

from convert.errors import Unsupported
from convert.options import Options
from convert.report import Report
from convert.runners.reference import run as evaluate

ENTRIES: dict[str, OpInfo] = {op.full_name: op for op in op_db}

PASSED = ("pass", "random")


@dataclass
class Outcome:
    """What became of one sample.

    verdict: "pass"; "random" (dtype and shape agree, the numbers are drawn); "wrong"; "gap" (declared); "refused"
    (`Unsupported`); "error". judge: who ran the graph, "onnxruntime" or, where that has no kernel, "reference".
    """

    entry: str
    sample: int
    verdict: str
    judge: str = ""
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Called(torch.nn.Module):
    """An operator as a module: the tensors among a sample's arguments are inputs, everything else is constant."""

    def __init__(self, function: Callable[..., Any], sample: SampleInput) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.example = [self.leaves[i].detach().clone() for i in self.places]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.function(*args, **kwargs)


def samples(entry: str, dtype: torch.dtype, step: int = 0) -> Iterator[tuple[int, SampleInput]]:
    """The samples that PyTorch tests an operator on, numbered: each `step`-th one, only the first if `step` is 0."""
    torch.manual_seed(0)
    found = ENTRIES[entry].sample_inputs("cpu", dtype, requires_grad=False)
    yield from itertools.islice(enumerate(found), 0, None if step else 1, step or None)


def judged(entry: str, number: int, sample: SampleInput, dtype: torch.dtype) -> Outcome | None:
    """The outcome of one sample; None where PyTorch itself does not run it."""
    module = Called(ENTRIES[entry].op, sample)
    try:
        with inference(module):
            result = module(*(t.clone() for t in module.example))
            leaves, structure = pytree.tree_flatten(result)
            want = [_array(leaf) for leaf in leaves if leaf is not None]
    except Exception:  # whatever PyTorch raises: this sample shows nothing
        return None
    if not want:
        return None
    if _is_sparse(module.example):
        return Outcome(entry, number, "gap", detail="sparse tensors have no equivalent in the graph")
    try:
        with inference(module), _silent():
            program = torch.export.export(module, tuple(module.example), strict=False)
            model = lower(program, Report("suite"))
    except Unsupported as error:
        declared = all(p.why in aten.gaps.values() for p in error.problems)
        return Outcome(entry, number, "gap" if declared else "refused", detail=_reasons(error))
    except Exception as error:
        return Outcome(entry, number, "error", detail=_line(error))
    try:
        got, judge = _executed(model, module.example)
    except Exception as error:
        return Outcome(entry, number, "error", detail=f"execution: {_line(error)}")
    if len(got) == len(want) == len(leaves):
        got, want = ([*_processed(v, structure, sample)] for v in (got, want))
    drawn = _is_random(program)
    fault = difference(got, want, drawn, lambda: _wider(module, dtype, sample))
    verdict = "wrong" if fault else "random" if drawn else "pass"
    return Outcome(entry, number, verdict, judge, fault)


# -- running ----------------------------------------------------------------------------------------------------------


def _executed(model: ir.Model, tensors: list[torch.Tensor]) -> tuple[list[np.ndarray], str]:
    feeds = {v.name: _array(t) for v, t in zip(model.graph.inputs, tensors, strict=True)}
    proto = to_proto(model, Options())
    onnx.checker.check_model(proto, full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    lacking = any(t.elem_type == onnx.TensorProto.BFLOAT16 for t in _ends(proto))
    if not lacking:
        try:
            session = onnxruntime.InferenceSession(proto.SerializeToString(), settings)
            return session.run(None, feeds), "onnxruntime"
        except Exception as error:
            if not _lacks_kernel(error):
                raise
    return list(evaluate(model, feeds).values()), "reference"


def _ends(proto: onnx.ModelProto) -> Iterator[Any]:
    for value in (*proto.graph.input, *proto.graph.output):
        yield value.type.tensor_type


def _lacks_kernel(error: Exception) -> bool:
    return bool(re.search(r"NOT_IMPLEMENTED|Could not find an implementation|not supported|invalid type", str(error)))


def _arrays(result: Any) -> list[np.ndarray]:
    return [_array(leaf) for leaf in pytree.tree_leaves(result) if leaf is not None]


def _array(leaf: Any) -> np.ndarray:
    tensor = leaf.detach() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
    tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ir.DataType.BFLOAT16.numpy())
    return tensor.numpy()


def _processed(arrays: list[np.ndarray], structure: Any, sample: SampleInput) -> Iterator[np.ndarray]:
    """What PyTorch's own tests look at in a result: not the free signs of singular vectors, for instance."""
    process = sample.output_process_fn_grad
    if getattr(process, "__qualname__", "").startswith("SampleInput."):
        yield from arrays
        return
    try:
        tensors = [torch.from_numpy(np.array(a)) for a in arrays]
        yield from _arrays(process(pytree.tree_unflatten(tensors, structure)))
    except Exception:  # the function expects a gradient's surroundings
        yield from arrays


def _is_sparse(tensors: list[torch.Tensor]) -> bool:
    return any(t.layout != torch.strided for t in tensors)


def _is_random(program: torch.export.ExportedProgram) -> bool:
    """True if an operator draws numbers, or leaves them undefined."""
    return any(
        (torch.Tag.nondeterministic_seeded in node.target.tags and not _draws_nothing(node))
        or node.target._schema.name.removeprefix("aten::").startswith(("empty", "new_empty"))
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )


def _draws_nothing(node: torch.fx.Node) -> bool:
    """Dropout and its like outside of training, or with a probability of 0."""
    names = [a.name for a in node.target._schema.arguments]
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    training = next((given.get(n, False) for n in ("train", "training") if n in names), None)
    if training is not None:
        return not training or given.get("p", given.get("dropout", 1.0)) == 0
    return "dropout_p" in names and not given.get("dropout_p", 0.0)


# -- a wider dtype -----------------------------------------------------------------------------------------------------


def _wider(module: Called, dtype: torch.dtype, sample: SampleInput) -> list[np.ndarray] | None:
    """The source in float64; None where that is what it is in already, or PyTorch cannot."""
    if not dtype.is_floating_point or dtype == torch.float64:
        return None
    tensors = [t.double() if t.is_floating_point() else t for t in module.example]
    leaves = [torch.float64 if leaf == dtype else leaf for leaf in module.leaves]
    wide = Called(module.function, SampleInput(torch.zeros(())))
    wide.leaves, wide.structure, wide.places = leaves, module.structure, module.places
    try:
        with inference(wide):
            leaves, structure = pytree.tree_flatten(wide(*tensors))
        return [*_processed([_array(leaf) for leaf in leaves if leaf is not None], structure, sample)]
    except Exception:
        return None


# -- words ------------------------------------------------------------------------------------------------------------


def _reasons(error: Unsupported) -> str:
    return "; ".join(sorted({f"{p.at.operator}: {p.why}" for p in error.problems}))


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


@contextmanager
def _silent() -> Iterator[None]:
    import logging
    import warnings

    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in whatever runs longer."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
