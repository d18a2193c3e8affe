"""The private parts of PyTorch that this package uses, by names that say what they are.

No other module of the package imports or names a private part: what a new release of PyTorch moves is moved here.
`tests/backends/pytorch/test_torch_internals.py` holds the wall. Private means `torch._x`, names that begin with `_` in
a public module, private attributes of PyTorch's objects, and `torch.fx.experimental`, which promises nothing. Where
nothing else is said, a name is there in 2.13 and 2.14.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch._decomp.decompositions
import torch._dispatch.python
import torch._ops
import torch._subclasses.fake_impls
import torch._subclasses.fake_tensor
import torch.utils._pytree
import torch.utils._sympy.value_ranges
from torch import _C, Tensor, nn
from torch.fx.experimental import _config, symbolic_shapes

if TYPE_CHECKING:
    from torch.export import ExportedProgram

DispatchKey = _C.DispatchKey
"""Which of an operator's kernels: torch.library takes the names of keys, the tables of kernels hold the keys."""

OpOverload = torch._ops.OpOverload
"""The class of `torch.ops.aten.add.Tensor`, by which a target of a captured program is told: no public name has it."""

DisableTorchFunction = _C.DisableTorchFunction
"""Inside, tensors tell no mode and no subclass of a call; torch.overrides has no public name for it."""

PyTorchFileReader = _C.PyTorchFileReader
"""Reads the records of an archive, as torch.jit.load does; torch.package has another format."""

PyTorchFileWriter = _C.PyTorchFileWriter
"""Writes the records of an archive."""

matmul = torch._decomp.decompositions.matmul
"""The matrix product, made of the operators that PyTorch takes it apart into."""

enable_python_dispatcher = torch._dispatch.python.enable_python_dispatcher
"""Has an operator's Python kernels called, as torch.export does."""

convolution_without_content = torch._subclasses.fake_impls.conv
"""What a convolution gives for tensors without content."""

shape_functions = torch._subclasses.fake_impls.op_implementations_dict
"""What operators give for tensors without content: torch.library refuses a second function for PyTorch's own."""

FakeTensorMode = torch._subclasses.fake_tensor.FakeTensorMode
"""Inside, tensors have no content. PyTorch's documentation shows it, and has no public name for it."""

pytree = torch.utils._pytree
"""Takes containers apart. The public torch.utils.pytree may be another implementation than torch.export's."""

ShapeEnv = symbolic_shapes.ShapeEnv
"""The sizes of a capture as symbols, with what is known of them. No public name has any of these."""

TLS = symbolic_shapes.TLS
"""Says whether guards are left out at the moment."""

DimDynamic = symbolic_shapes.DimDynamic
"""How a size is to be treated."""

GuardOnDataDependentSymNode = symbolic_shapes.GuardOnDataDependentSymNode
"""What is raised where a program decides on data."""

is_concrete_int = symbolic_shapes.is_concrete_int
"""Whether a size is a number."""

statically_known_true = symbolic_shapes.statically_known_true
"""Whether a condition on sizes holds for all; it makes no guard."""

ValueRanges = torch.utils._sympy.value_ranges.ValueRanges
"""The bounds of a symbol."""

check: Callable[..., None] = torch._check
"""States a fact about sizes, to which a capture holds the program; torch.export's documentation asks for it."""

assert_true: Callable[..., None] = torch._assert
"""An assertion that TorchScript keeps."""

softmax: Callable[..., Tensor] = torch._softmax
"""The operator below `torch.softmax`, which has that one's kernel and no decomposition."""

log_softmax: Callable[..., Tensor] = torch._log_softmax
"""The operator below `torch.log_softmax`."""

LOGGERS = ("torch", "torch.export", "torch._export", "torch.fx", "torch._subclasses.fake_tensor")
"""The loggers that speak while a program is captured or saved."""

CONVOLUTION_CHOICES = ((_C, "_select_conv_backend"), (_C, "_conv_determine_backend_memory_format"))
"""The functions that choose a kernel for a convolution, and a layout for its result."""

EXAMPLE_QUESTIONS = (
    symbolic_shapes,
    "has_guarding_hint" if hasattr(symbolic_shapes, "has_guarding_hint") else "has_hint",
)
"""The function that says whether a size has the number of an example, as PyTorch 2.10 and newer ones call it."""


class Sizes(ShapeEnv):
    """Sizes as symbols that report what is asked of them: `on_guard` is called before a guard is logged."""

    def on_guard(self, prefix: str, guard: Any) -> None:
        """Take note of a guard; `prefix` says how PyTorch came to it."""

    def _log_guard(self, prefix: str, g: Any, forcing_spec: bool) -> None:
        self.on_guard(prefix, g)
        super()._log_guard(prefix, g, forcing_spec=forcing_spec)

    def suppresses_guards(self) -> bool:
        """Whether guards are left out at the moment."""
        return self._suppress_guards_tls()


class KernelTable(NamedTuple):
    """The Python kernels of an operator by key, and what was looked up in them before."""

    kernels: dict[Any, Callable[..., Any]]
    looked_up: Any


def kernel_table(operator: OpOverload) -> KernelTable:
    """Return the tables in which an operator finds its kernel: torch.library can add one, not take it away again."""
    return KernelTable(operator.py_kernels, operator._dispatch_cache)


def kernel_caller(operator: OpOverload) -> Callable[..., Any]:
    """Return the function `(key, *args, **kwargs)` that calls the operator's own kernel for a key."""
    return operator._op_dk


def schema_of(operator: OpOverload) -> Any:
    """Return the schema of an operator's overload: torch.library has none to ask for."""
    return operator._schema


def own_parts(module: nn.Module) -> dict[str, nn.Module | None]:
    """Return the table of a module's parts, by name."""
    return module._modules


def guard_texts(program: ExportedProgram) -> list[str]:
    """Return the conditions on sizes under which a program holds, as Python: `L['x'].size()[0] % 2 == 0`."""
    return list(program._guards_code)


def set_guard_texts(program: ExportedProgram, texts: list[str]) -> None:
    """Give a program other conditions on sizes."""
    program._guards_code = texts


def without_examples() -> Any:
    """Return a context in which no capture takes a size for the number of its example, such as 1 for a batch."""
    return _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]


# -- modules that are imported by a call: Dynamo takes a second --------------------------------------------------------


def import_compiler() -> ModuleType:
    """Import Dynamo and the capture of torch.export."""
    importlib.import_module("torch.export._trace")
    return importlib.import_module("torch._dynamo")


def capture_error() -> type[Exception]:
    """Return the class of what torch.export raises about the program of a user."""
    found: type[Exception] = import_compiler().exc.UserError
    return found


def save_error() -> type[Exception]:
    """Return the class of what torch.export.save raises for a program that it cannot write."""
    found: type[Exception] = importlib.import_module("torch._export.serde.serialize").SerializeError
    return found


def source_of_no_input(name: str) -> Any:
    """Return where a symbol comes from that is the size of no input."""
    return importlib.import_module("torch._dynamo.source").ConstantSource(name)
