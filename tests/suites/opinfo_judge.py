"""Judge one sample of PyTorch's operator table: convert it, run it in onnxruntime and compare it with PyTorch."""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import torch
from convert.backends.onnx import to_proto
from convert.frontends.pytorch.export.capture.export_module import export_program, inference
from convert.frontends.pytorch.export.lowering.program import lower
from convert.frontends.pytorch.reader import read
from convert.frontends.pytorch.rules import torch_op
from opinfo_bounds import silent
from opinfo_compare import difference
from opinfo_ties import settled
from torch._export.utils import _collect_all_valid_cia_ops
from torch.utils import _pytree as pytree

from convert.errors import Unsupported
from convert.graph.values import is_random_node, nodes_of
from convert.outcome.report import Report
from convert.processes.interpreter import paused_garbage_collection
from convert.reference.executor import run as evaluate
from convert.request.options import Options
from convert.request.source import Source

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

# PyTorch searches all operators again for each decomposition, with the same result.
torch.export.exported_program._collect_all_valid_cia_ops = functools.cache(_collect_all_valid_cia_ops)
torch.export.exported_program._collect_all_valid_cia_ops()

PASSED = ("pass", "random")


@functools.cache
def table() -> dict[str, OpInfo]:
    """Return PyTorch's entries by name; importing them takes seven seconds."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db}


@dataclass
class Outcome:
    """The outcome of one sample.

    verdict: "pass"; "random" (dtype and shape agree, the numbers are drawn); "wrong"; "gap" (declared); "refused"
    (`Unsupported`, but not declared); "error". judge: the runtime, "onnxruntime", or "reference" if it has no kernel,
    or "declared" for random numbers that neither can sample.
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
    """Yield PyTorch's samples of an operator with their numbers: every `step`-th, or the first if `step` is 0."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    found = itertools.islice(
        enumerate(table()[entry].sample_inputs("cpu", dtype, requires_grad=False)), 0, None if step else 1, step or None
    )
    while True:
        # A sample must not change the next one.
        try:
            item = next(found)
        except StopIteration:
            return
        state = torch.get_rng_state()
        yield item
        torch.set_rng_state(state)


def judged(
    entry: str, number: int, sample: SampleInput, dtype: torch.dtype, by_example: bool = False
) -> Outcome | None:
    """Return the outcome of one sample, or None if PyTorch itself does not run it.

    by_example: read the module as users do, with its tensors as examples and no option, so that dims are dynamic if
    possible; otherwise it is captured for the sizes of the sample.
    """
    module = Called(table()[entry].op, sample)
    try:
        with inference(module):
            result = module(*(t.clone() for t in module.example))
            leaves, structure = pytree.tree_flatten(result)
            want = [_array(leaf) for leaf in leaves if leaf is not None]
    except Exception:  # any exception of PyTorch: this sample proves nothing
        return None
    if not want:
        return None
    if _is_sparse(module.example):
        return Outcome(entry, number, "gap", detail="sparse tensors have no equivalent in the graph")
    try:
        # Garbage collection is paused, because a generator that is collected during the capture would appear in it.
        with inference(module), silent(), paused_garbage_collection():
            model, drawn = (_read_by_example if by_example else _captured)(module)
    except Unsupported as error:
        declared = all(p.why in (*torch_op.gaps.values(), *torch_op.limits.values()) for p in error.problems)
        return Outcome(entry, number, "gap" if declared else "refused", detail=_reasons(error))
    except Exception as error:
        return Outcome(entry, number, "error", detail=_line(error))
    try:
        got, judge = _executed(model, module.example, drawn)
    except Exception as error:
        return Outcome(entry, number, "error", detail=f"execution: {_line(error)}")
    fault = _fault(module, entry, sample, got, want, leaves, structure, drawn, dtype)
    if fault and judge == "onnxruntime" and any(t.isnan().any() for t in module.example):
        # onnxruntime's ReduceMax, ArgMax and similar operators ignore NaN, ONNX's reference does not.
        judge, got = "reference", _evaluated(model, module.example)
        fault = _fault(module, entry, sample, got, want, leaves, structure, drawn, dtype)
    verdict = "wrong" if fault else "random" if drawn else "pass"
    return Outcome(entry, number, verdict, judge, fault)


def _captured(module: Called) -> tuple[ir.Model, bool]:
    """Return the graph for the sizes of the sample, and whether its outputs are random."""
    program = export_program(module, tuple(module.example))
    return lower(program, Report("suite")), _is_random(program)


def _read_by_example(module: Called) -> tuple[ir.Model, bool]:
    # PyTorch's table seeds the generator inside random operators, which a graph cannot do.
    from torch.testing._internal import common_methods_invocations as methods

    before, methods.wrapper_set_seed = methods.wrapper_set_seed, lambda op, *args, **kwargs: op(*args, **kwargs)
    try:
        options = Options(examples=dict(enumerate(module.example)), no_inputs=not module.example)
        model = read(Source("torch-module-object", model=module), options, Report("suite"))
        return model, any(map(is_random_node, nodes_of(model.graph))) or _is_undefined(module)
    finally:
        methods.wrapper_set_seed = before


def _is_undefined(module: Called) -> bool:
    """Return whether the operator returns uninitialized memory, according to its name."""
    return "empty" in getattr(module.function, "__name__", "")


def _fault(
    module: Called,
    entry: str,
    sample: SampleInput,
    got: list[np.ndarray],
    want: list[np.ndarray],
    leaves: list[Any],
    structure: Any,
    drawn: bool,
    dtype: torch.dtype,
) -> str:
    """Return the error of the outputs, or ""."""
    got = settled(entry, sample, got, want)
    numbers = [not isinstance(leaf, torch.Tensor) for leaf in leaves if leaf is not None]
    if len(got) == len(want):
        want = [_as_number(w, v) if n else w for w, v, n in zip(want, got, numbers, strict=True)]
    if len(got) == len(want) == len(leaves):
        got, want = ([*_processed(v, structure, sample)] for v in (got, want))
    return difference(got, want, drawn, lambda: _wider(module, dtype, sample))


# -- running ----------------------------------------------------------------------------------------------------------


def _executed(model: ir.Model, tensors: list[torch.Tensor], drawn: bool) -> tuple[list[np.ndarray], str]:
    """Return the outputs and the runtime; for random outputs without a runtime, zeros of the declared shape."""
    feeds = {v.name: _array(t) for v, t in zip(model.graph.inputs, tensors, strict=True)}
    ends = (*model.graph.inputs, *model.graph.outputs)
    # onnxruntime has few kernels for bfloat16, and the opsets that it runs lack the type.
    lacking = any(v.dtype == ir.DataType.BFLOAT16 for v in ends)
    proto = ir.to_proto(model) if lacking else to_proto(model, Options())
    onnx.checker.check_model(proto, full_check=True)
    if not lacking:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(proto.SerializeToString(), settings)
            return session.run(None, feeds), "onnxruntime"
        except Exception as error:
            if not _lacks_kernel(error):
                raise
    if drawn:
        return [np.zeros(v.shape.numpy(), v.dtype.numpy()) for v in model.graph.outputs], "declared"
    return _evaluated(model, tensors), "reference"


def _evaluated(model: ir.Model, tensors: list[torch.Tensor]) -> list[np.ndarray]:
    feeds = {v.name: _array(t) for v, t in zip(model.graph.inputs, tensors, strict=True)}
    return list(evaluate(model, feeds).values())


def _as_number(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Return a Python number in the dtype of `got` if both are of one kind, because it has no width itself."""
    both = (want.dtype.kind, got.dtype.kind.replace("V", "f"))  # numpy has no kind for bfloat16
    return want.astype(got.dtype) if both[0] == both[1] else want


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
    """Return the parts of a result that PyTorch's own tests compare, without arbitrary signs of singular vectors."""
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
    """Return whether an operator's results are random or undefined."""
    return any(
        (torch.Tag.nondeterministic_seeded in node.target.tags and not _draws_nothing(node))
        or node.target._schema.name.removeprefix("aten::").startswith(("empty", "new_empty"))
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )


def _draws_nothing(node: torch.fx.Node) -> bool:
    """Return whether the operator is a dropout outside of training, or one with a probability of 0."""
    names = [a.name for a in node.target._schema.arguments]
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    training = next((given.get(n, False) for n in ("train", "training") if n in names), None)
    if training is not None:
        return not training or given.get("p", given.get("dropout", 1.0)) == 0
    return "dropout_p" in names and not given.get("dropout_p", 0.0)


# -- a wider dtype -----------------------------------------------------------------------------------------------------


def _wider(module: Called, dtype: torch.dtype, sample: SampleInput) -> list[np.ndarray] | None:
    """Return the source's outputs in float64, or None if it is in float64 already or PyTorch fails."""
    if not dtype.is_floating_point or dtype == torch.float64:
        return None
    tensors = [t.double() if t.is_floating_point() else t for t in module.example]
    leaves = [torch.float64 if leaf == dtype else leaf for leaf in module.leaves]
    from torch.testing._internal.opinfo.core import SampleInput

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
