"""The private parts of PyTorch that this package uses, under names that describe them.

No other module of the package imports or names a private part, so changes for a new PyTorch release are made here.
`tests/backends/pytorch/test_torch_internals.py` checks this. Private means `torch._x`, names that begin with `_` in a
public module, private attributes of PyTorch's objects, and `torch.fx.experimental`, which has no stability promise.
Unless noted, a name exists in PyTorch 2.10 to 2.14.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch._decomp.decompositions
import torch._dispatch.python
import torch._meta_registrations
import torch._ops
import torch._subclasses.fake_impls
import torch._subclasses.fake_tensor
import torch.utils._pytree
import torch.utils._sympy.value_ranges
from torch import _C, Tensor, nn
from torch.fx.experimental import _config, symbolic_shapes
from torch.torch_version import TorchVersion

if TYPE_CHECKING:
    from torch.export import ExportedProgram

DispatchKey = _C.DispatchKey
"""Keys of an operator's kernels. torch.library accepts only their names, but the kernel tables contain the keys."""

OpOverload = torch._ops.OpOverload
"""The class of `torch.ops.aten.add.Tensor`, which identifies call targets in a captured program; it has no public
name.
"""

DisableTorchFunction = _C.DisableTorchFunction
"""Context in which modes and subclasses do not see calls of tensors; torch.overrides has no public name for it."""

PyTorchFileReader = _C.PyTorchFileReader
"""Reader for the records of an archive, as torch.jit.load uses it; torch.package has another format."""

PyTorchFileWriter = _C.PyTorchFileWriter
"""Writer for the records of an archive."""

matmul = torch._decomp.decompositions.matmul
"""The matrix product, composed of the operators that PyTorch decomposes it into."""

enable_python_dispatcher = torch._dispatch.python.enable_python_dispatcher
"""Enables the Python kernels of an operator, as torch.export does."""

convolution_without_content = torch._subclasses.fake_impls.conv
"""Shape function of convolutions for tensors without content."""

shape_functions = torch._subclasses.fake_impls.op_implementations_dict
"""Shape functions of operators for tensors without content: torch.library rejects a second function for an operator of
PyTorch.
"""

FakeTensorMode = torch._subclasses.fake_tensor.FakeTensorMode
"""Mode in which tensors have no content. PyTorch's documentation shows it, but it has no public name."""

pytree = torch.utils._pytree
"""Flattens containers. The public torch.utils.pytree may be another implementation than torch.export's."""

ShapeEnv = symbolic_shapes.ShapeEnv
"""The sizes of a capture as symbols, with known facts about them. None of these has a public name."""

TLS = symbolic_shapes.TLS
"""Holds whether guards are suppressed at the moment."""

DimDynamic = symbolic_shapes.DimDynamic
"""Ways to treat a size during capture."""

GuardOnDataDependentSymNode = symbolic_shapes.GuardOnDataDependentSymNode
"""Raised if a program depends on data."""

is_concrete_int = symbolic_shapes.is_concrete_int
"""Return whether a size is a number."""

guard_or_false = symbolic_shapes.guard_or_false
"""Return whether a condition on sizes holds for the example, and add a guard; without an example, whether it holds
always.
"""

statically_known_true = symbolic_shapes.statically_known_true
"""Return whether a condition holds for all sizes; creates no guard."""

ValueRanges = torch.utils._sympy.value_ranges.ValueRanges
"""The bounds of a symbol."""

check: Callable[..., None] = torch._check
"""States a fact about sizes, which the program then asserts; torch.export's documentation recommends it."""

assert_true: Callable[..., None] = torch._assert
"""An assertion that TorchScript keeps."""

softmax: Callable[..., Tensor] = torch._softmax
"""The operator below `torch.softmax`, with the same kernel and no decomposition."""

log_softmax: Callable[..., Tensor] = torch._log_softmax
"""The operator below `torch.log_softmax`."""

LOGGERS = ("torch", "torch.export", "torch._export", "torch.fx", "torch._subclasses.fake_tensor")
"""The loggers that write while a program is captured or saved."""

CONVOLUTION_CHOICES = ((_C, "_select_conv_backend"), (_C, "_conv_determine_backend_memory_format"))
"""The functions that choose a kernel for a convolution, and the layout of its result."""

LEAVES_SLICES_OPEN = TorchVersion(torch.__version__) < "2.12"
"""Whether PyTorch makes the length of a slice such as `x[1:-1]` an unknown number."""

POOL_DIVISION = (torch._meta_registrations, "div_rtn")
"""The function that divides the sizes of pools; up to PyTorch 2.12 it asks whether there is a remainder."""

EXAMPLE_QUESTIONS = (
    symbolic_shapes,
    "has_guarding_hint" if hasattr(symbolic_shapes, "has_guarding_hint") else "has_hint",
)
"""The function that returns whether a size has an example's number, as named in PyTorch 2.10 and later."""


class Sizes(ShapeEnv):
    """Sizes as symbols that report guards: `on_guard` is called before a guard is logged."""

    def on_guard(self, prefix: str, guard: Any) -> None:
        """Called for each guard; `prefix` describes how PyTorch arrived at it."""

    def _log_guard(self, prefix: str, g: Any, forcing_spec: bool) -> None:
        self.on_guard(prefix, g)
        super()._log_guard(prefix, g, forcing_spec=forcing_spec)

    def suppresses_guards(self) -> bool:
        """Return whether guards are suppressed at the moment."""
        return self._suppress_guards_tls()


class KernelTable(NamedTuple):
    """The Python kernels of an operator by key, and the cache of lookups in them."""

    kernels: dict[Any, Callable[..., Any]]
    looked_up: Any


def kernel_table(operator: OpOverload) -> KernelTable:
    """Return the tables in which an operator finds its kernels: torch.library can add a kernel but not remove it."""
    return KernelTable(operator.py_kernels, operator._dispatch_cache)


def kernel_caller(operator: OpOverload) -> Callable[..., Any]:
    """Return the function `(key, *args, **kwargs)` that calls the operator's own kernel for a key."""
    return operator._op_dk


def schema_of(operator: OpOverload) -> Any:
    """Return the schema of an operator's overload; torch.library does not give it."""
    return operator._schema


def own_parts(module: nn.Module) -> dict[str, nn.Module | None]:
    """Return the table of a module's submodules, by name."""
    return module._modules


def guard_texts(program: ExportedProgram) -> list[str]:
    """Return the conditions on sizes under which a program holds, as Python: `L['x'].size()[0] % 2 == 0`."""
    return list(program._guards_code)


def set_guard_texts(program: ExportedProgram, texts: list[str]) -> None:
    """Give a program other conditions on sizes."""
    program._guards_code = texts


def without_examples() -> Any:
    """Return a context in which no capture specializes a size to its example, such as 1 for a batch."""
    return _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]


# -- modules that are imported by a call: Dynamo takes a second --------------------------------------------------------


def import_compiler() -> ModuleType:
    """Import Dynamo and the capture of torch.export."""
    importlib.import_module("torch.export._trace")
    return importlib.import_module("torch._dynamo")


def capture_error() -> type[Exception]:
    """Return the class of errors that torch.export raises about a user's program."""
    found: type[Exception] = import_compiler().exc.UserError
    return found


def save_error() -> type[Exception]:
    """Return the class of errors that torch.export.save raises for a program that it cannot write."""
    found: type[Exception] = importlib.import_module("torch._export.serde.serialize").SerializeError
    return found


def source_of_no_input(name: str) -> Any:
    """Return the source of a symbol that is the size of no input."""
    return importlib.import_module("torch._dynamo.source").ConstantSource(name)
