"""The inputs of a TorchScript module: described by the user, recorded by a trace, or guessed from its layers."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from convert import limits
from convert.activity import doing
from convert.errors import ResourceLimit, UsageError
from convert.files.archives import member, open_archive, read_member
from convert.graph import Dim
from convert.outcome.report import Report
from convert.processes.run_here import NO_MEMORY
from convert.processes.sandbox import bounded_memory
from convert.processes.warm import are_allowed
from convert.request.nearest import names_hint
from convert.request.options import DimSpec, InputSpec

from ..export.capture.export_module import inference
from ..inputs.examples import dtype_named, example_tensor
from ..inputs.guess import BATCH, LENGTHS, SEQUENCES, SIZES
from ..inputs.layout_hint import channels_first_hint
from ..torch_internals import pytree
from .clock import OUT_OF_TIME, run_with_clock
from .state import attributes, override_attributes

_STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}


NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Input:
    """One tensor that the module takes. `sizes` are example lengths of its dims, `bounds` those of the dynamic dims.

    given: the user's example. Its integers may be lengths, which cannot be replaced by other values.
    """

    name: str
    dtype: torch.dtype
    dims: tuple[Dim, ...]
    sizes: tuple[int, ...]
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    given: torch.Tensor | None = field(default=None, compare=False, repr=False)

    def example(self) -> torch.Tensor:
        """Return a tensor of `sizes`: the user's example if it fits, with repeated rows if needed, else a
        made-up one.
        """
        if (
            self.given is not None
            and self.given.dim()
            and self.given.numel()
            and self.given.shape[1:] == self.sizes[1:]
        ):
            return self.given[torch.arange(self.sizes[0]) % len(self.given)].to(self.dtype)
        if self.given is not None and tuple(self.given.shape) == self.sizes:
            return self.given.clone().to(self.dtype)
        return example_tensor(self.sizes, self.dtype)


# -- what a trace recorded --------------------------------------------------------------------------------------------


def recorded_inputs(path: Path) -> tuple[InputSpec, ...]:
    """Return shapes and dtypes of the inputs with which the archive at `path` was traced; none for a scripted module.

    They are in `traced_inputs.pkl`, whose tensors have no content. Stand-ins that only record their arguments replace
    its classes and functions; if the file names any other, the result is empty.
    """
    with open_archive(path) as archive:
        name = member(archive, "traced_inputs.pkl")
        data = read_member(archive, name, limits.TORCHSCRIPT_INPUTS_BYTES) if name is not None else b""
    try:
        found = _SpecUnpickler(io.BytesIO(data)).load().get("forward", []) if data else []
    except (pickle.UnpicklingError, EOFError, AttributeError, LookupError, TypeError, ValueError):
        return ()
    leaves = pytree.tree_leaves(found)
    return tuple(i for i in leaves if isinstance(i, InputSpec))


class _SpecUnpickler(pickle.Unpickler):
    """Reads the metadata of tensors and executes nothing: every name resolves to one of these stand-ins."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        known = {
            "torch.jit._pickle.restore_type_tag": lambda value, tag: value,
            "collections.OrderedDict": dict,
            "torch._utils._rebuild_tensor_v2": lambda dtype, offset, sizes, *rest: InputSpec(
                None, dtype, tuple(DimSpec(size=int(n)) for n in sizes)
            ),
        }
        if f"{module}.{name}" not in known:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return known[f"{module}.{name}"]

    def persistent_load(self, key: Any) -> Any:
        return key[1]


# -- putting together -------------------------------------------------------------------------------------------------


def described_inputs(
    module: Any,
    names: Sequence[str],
    specs: Sequence[InputSpec],
    examples: Mapping[Any, Any],
    recorded: Sequence[InputSpec],
    report: Report,
    fixed: Mapping[str, Any] = NOTHING,
) -> dict[str, Input]:
    """Return the described tensors by name. Raises `UsageError` for a description that fits no input."""
    if len(specs) > len(names):
        raise UsageError(
            f"forward takes {len(names)} inputs, but {len(specs)} are described",
            hint=f"its inputs are {', '.join(names)}",
        )
    named = {spec.name or names[i]: spec for i, spec in enumerate(specs)}
    arrays = {names[k] if isinstance(k, int) and k < len(names) else k: torch.as_tensor(a) for k, a in examples.items()}
    for name in [*named, *arrays]:
        if name not in names:
            raise UsageError(f"forward has no input {name!r}", hint=names_hint(str(name), names))
    known = dict(zip(names, recorded, strict=False)) if len(recorded) <= len(names) else {}
    inputs: dict[str, Input] = {}
    measured: dict[str, Input] = {}
    for name in names:
        spec = named.get(name)
        if spec is not None and spec.shape is not None:
            dtype = (
                spec.dtype
                or (str(arrays[name].dtype).removeprefix("torch.") if name in arrays else None)
                or (known[name].dtype if name in known else None)
            )
            inputs[name] = _input_from_spec(name, dtype or "float32", spec.shape, arrays.get(name))
        elif name in arrays:
            shape = tuple(arrays[name].shape)
            measured[name] = Input(name, arrays[name].dtype, shape, shape, given=arrays[name])
        elif name in known:
            shape = tuple(d.size or 0 for d in known[name].shape or ())
            of = dtype_named((spec.dtype if spec else None) or known[name].dtype or "float32")
            measured[name] = Input(name, of, shape, shape)
    if measured and not inputs:
        return _with_dynamic_batch(module, measured, report, fixed)
    return {**inputs, **measured}


def _input_from_spec(name: str, dtype: str, shape: Sequence[DimSpec], array: torch.Tensor | None) -> Input:
    if array is not None and array.dim() != len(shape):
        raise UsageError(f"the example for {name} has {array.dim()} dims, its description {len(shape)}")
    dims: list[Dim] = []
    sizes: list[int] = []
    bounds: dict[str, tuple[int, int | None]] = {}
    for i, dim in enumerate(shape):
        usual = min(max(dim.low or 1, BATCH if i == 0 else 32), dim.high or 1 << 30)
        size = dim.size if dim.size is not None else usual
        sizes.append(int(array.shape[i]) if array is not None else size)
        label = dim.name or ("batch" if i == 0 else f"{name}_{i}")
        dims.append(dim.size if dim.size is not None else label)
        if dim.size is None:
            bounds[label] = (dim.low if dim.low is not None else 1, dim.high)
    return Input(name, dtype_named(dtype), tuple(dims), tuple(sizes), bounds, array)


def _with_dynamic_batch(
    module: Any, inputs: dict[str, Input], report: Report, fixed: Mapping[str, Any]
) -> dict[str, Input]:
    """Return the inputs with a dynamic batch dim, if the module also runs at another batch size.

    The batch is the first dim of the first input of several dims. An input with another length there keeps it, and a
    note says so.
    """
    measured = [i for i in inputs.values() if i.sizes]
    if not measured:
        return inputs
    length = next((i for i in measured if len(i.sizes) > 1), measured[0]).sizes[0]
    batched = {i.name for i in measured if i.sizes[0] == length}
    for i in measured:
        if i.name not in batched:
            report.note(
                f"the dim 0 of {i.name} is fixed at {i.sizes[0]}: another input has the batch", code="fixed-dim"
            )
    if not _takes_batch(module, list(inputs.values()), batched, length, fixed):
        report.note(f"the batch is {length}, as traced: the module does not take another one", code="fixed-dim")
        return inputs
    return {
        name: replace(i, dims=("batch", *i.dims[1:]), bounds={"batch": (1, None)}) if name in batched else i
        for name, i in inputs.items()
    }


def _takes_batch(
    module: Any, inputs: list[Input], batched: Collection[str], length: int, fixed: Mapping[str, Any]
) -> bool:
    """Return whether the module runs at another batch size and its outputs grow by the same factor."""
    other = length + 3
    try:
        before = _leading_lengths(run_on_examples(module, inputs, fixed)[0])
        longer = [replace(i, sizes=(other, *i.sizes[1:])) if i.name in batched else i for i in inputs]
        after = _leading_lengths(run_on_examples(module, longer, fixed)[0])
    except ResourceLimit:
        raise
    except Exception:
        return False
    if len(before) != len(after):
        return False
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if b is not None]
    grown = [(b, a) for b, a in pairs if b != a]
    return bool(grown) and all(b % length == 0 and a == b // length * other for b, a in grown)


def check_runs(module: Any, inputs: list[Input], fixed: Mapping[str, Any]) -> None:
    """Raise `UsageError` if the module does not run on tensors of the described sizes.

    If sizes other than the batch were left open, a failure proves nothing, since this function chose them.
    """
    if any(isinstance(dim, str) for i in inputs for dim in i.dims[1:]):
        return
    # A failure also proves nothing for integers chosen here, which may be counts that happen to be zero.
    if any(i.given is None and not i.dtype.is_floating_point for i in inputs):
        return
    try:
        run_on_examples(module, inputs, fixed)
    except ResourceLimit:
        raise
    except Exception as error:
        if "Could not run '" in str(error):  # an operator that is only declared, because its library is not installed
            return
        shown = ", ".join(f"{i.name} {list(i.sizes)}" for i in inputs)
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise UsageError(
            f"forward does not run on inputs as described ({shown}): {lines[-1].strip() if lines else error}",
            hint=_layout_hint(module, inputs, fixed)
            or "describe the inputs that this module takes with --input NAME:DTYPE[DIMS]",
        ) from error


def _layout_hint(module: Any, inputs: list[Input], fixed: Mapping[str, Any]) -> str:
    """Return a hint for inputs that were described with their channels last."""

    def run_moved(names: Collection[str]) -> object:
        return run_on_examples(module, [_channels_first(i) if i.name in names else i for i in inputs], fixed)

    return channels_first_hint({i.name: i.dims for i in inputs}, {i.name: i.dtype for i in inputs}, run_moved)


def _channels_first(value: Input) -> Input:
    order = (0, len(value.sizes) - 1, *range(1, len(value.sizes) - 1))
    dims, sizes = (tuple(these[i] for i in order) for these in (value.dims, value.sizes))
    return replace(value, dims=dims, sizes=sizes, given=None)


def run_on_examples(
    module: Any,
    inputs: list[Input],
    fixed: Mapping[str, Any],
    states: Mapping[str, Any] = MappingProxyType({}),
    change: Callable[[torch.Tensor], torch.Tensor] = torch.clone,
) -> tuple[Any, dict[str, Any]]:
    """Run the module on examples; return its result and the values that its attributes then have.

    Afterwards the attributes are restored. states: values of attributes before the run; change: applied to each
    example. Raises `ResourceLimit` if the run takes more memory than any model of its size needs, or more time.
    """
    owner = module if isinstance(module, torch.nn.Module) else None
    kept = nullcontext() if owner is None else override_attributes(owner, states)
    with doing("running the module on an example"), torch.no_grad(), inference(owner), kept:
        tensors = {i.name: change(i.example()) for i in inputs}
        weights = [] if owner is None else [*owner.parameters(), *owner.buffers()]
        # A weight may be a single number that a stride of 0 repeats any number of times.
        storages = {
            s.data_ptr(): s.nbytes() for t in weights if t.layout is torch.strided for s in [t.untyped_storage()]
        }
        input_bytes = sum(t.nbytes for t in tensors.values())
        allowance = limits.TORCHSCRIPT_RUN_BYTES + 16 * sum(storages.values()) + 128 * input_bytes
        try:
            with bounded_memory(allowance):
                args, named = ((), {**tensors, **fixed}) if fixed else (tuple(tensors.values()), {})
                # A command limits the time itself.
                seconds = math.inf if are_allowed() else limits.TORCHSCRIPT_RUN_SECONDS
                result = run_with_clock(module, args, named, seconds)
                return result, {} if owner is None else attributes(owner)
        except (RuntimeError, MemoryError) as error:
            if OUT_OF_TIME in str(error):
                text = f"the module ran for more than {limits.TORCHSCRIPT_RUN_SECONDS:g} s on an example"
                more = "if its loops end, set convert.limits.TORCHSCRIPT_RUN_SECONDS in a program"
                raise ResourceLimit(text, hint=more) from error
            if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)):
                text = f"the module took more than {allowance / 1e9:.1f} GB of memory on an example"
                more = "--memory 16GB, or convert.limits.TORCHSCRIPT_RUN_BYTES in a program"
                raise ResourceLimit(text, hint=f"if it is right to, name what it may take: {more}") from error
            raise


def _leading_lengths(result: Any) -> list[Any]:
    leaves = pytree.tree_leaves(result)
    return [leaf.shape[0] if leaf.dim() else None for leaf in leaves if isinstance(leaf, torch.Tensor)]


# -- guesses ----------------------------------------------------------------------------------------------------------


def guessed_input(
    module: Any, name: str, asked: str | None, report: Report, fixed: Mapping[str, Any] = NOTHING
) -> Input:
    """Guess the only input of a scripted module from its first informative layer, and try it by running the module.

    Raises `UsageError` if no layer is informative.
    """
    for layer, sizes, dtype in _guesses(module):
        dtype = dtype_named(asked) if asked else dtype
        example = Input(name, dtype, tuple(sizes), tuple(sizes), {"batch": (1, None)})
        if _takes_batch(module, [example], {name}, sizes[0], fixed):
            found = replace(example, dims=("batch", *sizes[1:]))
            shown = ",".join(map(str, found.dims))
            report.note(
                f"assuming {name}: {str(dtype).removeprefix('torch.')}[{shown}] (from {layer}; set it with --input)",
                code="assumed-input",
            )
            return found
    raise UsageError(
        "the inputs of this TorchScript module cannot be inferred",
        hint=f"describe them, for instance --input {name}:float32[batch,3,224,224]",
    )


def _guesses(module: Any) -> Iterator[tuple[str, list[int], torch.dtype]]:
    for path, layer in module.named_modules() if isinstance(module, torch.nn.Module) else ():
        kind, weight = getattr(layer, "original_name", ""), getattr(layer, "weight", None)
        if kind in ("LSTM", "GRU", "RNN"):
            weight = getattr(layer, "weight_ih_l0", None)
            kind = "Linear"
        if not isinstance(weight, torch.Tensor) or kind not in _SHAPES:
            continue
        for sizes in _SHAPES[kind](weight):
            yield path or "the module", sizes, torch.int64 if kind == "Embedding" else weight.dtype
        return


def _image_sizes(weight: torch.Tensor) -> Iterator[list[int]]:
    channels = weight.shape[1]
    # One channel is more likely MNIST than ImageNet.
    for size in (28, *SIZES) if channels == 1 else SIZES:
        yield [BATCH, channels, size, size]


_SHAPES = {
    "Conv2d": _image_sizes,
    "Conv1d": lambda weight: ([BATCH, weight.shape[1], length] for length in LENGTHS),
    "Conv3d": lambda weight: ([BATCH, weight.shape[1], size, size, size] for size in (16, 32, 64, 112, 8)),
    "Linear": lambda weight: ([BATCH, *more, weight.shape[1]] for more in ([], [SEQUENCES[0]])),
    "Embedding": lambda weight: ([BATCH, length] for length in SEQUENCES),
    "BatchNorm2d": lambda weight: [[BATCH, weight.shape[0], 32, 32]],
}
