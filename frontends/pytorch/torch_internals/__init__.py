"""The private parts of PyTorch that this package uses, under descriptive names.

No other module of the package imports or names a private part: if a new release of PyTorch moves one, only this module
changes. `tests/frontends/pytorch/test_torch_internals.py` enforces that. Private means `torch._x`, names that begin
with `_` in a public module, private attributes of PyTorch's objects, and `torch.fx.experimental`, which promises no
stability.

Everything that this module imports is loaded by `import torch` anyway, so importing it costs nothing. `symbols` holds
what imports sympy; functions import Dynamo when they are called. Two other modules may
name private parts: the table of patches (`export/patch_table.py`), which names what is replaced, and
`common/late_imports.py`, which changes how PyTorch is imported and so cannot import PyTorch first. Each name exists in
releases 2.10 to 2.14 unless its comment says otherwise.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch._decomp
import torch._library.simple_registry
import torch._ops
import torch._prims_common
import torch._refs
import torch._subclasses.fake_tensor
import torch.fx._pytree
import torch.jit._state
import torch.nn.modules.adaptive
import torch.nn.modules.loss
import torch.utils._python_dispatch
import torch.utils._pytree
from torch import _C, Tensor, fx, nn
from torch._functorch import eager_transforms as _eager_transforms
from torch._higher_order_ops.flex_attention import math_attention as _math_attention
from torch._higher_order_ops.map import map_impl as _map_impl
from torch._higher_order_ops.scan import scan as _scan
from torch.fx.experimental import proxy_tensor as _proxy_tensor

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.export.graph_signature import ExportGraphSignature

# -- operators --------------------------------------------------------------------------------------------------------

OpOverload = torch._ops.OpOverload
"""The class of `torch.ops.aten.add.Tensor`; identifies operators among a program's targets and has no public name."""

OpOverloadPacket = torch._ops.OpOverloadPacket
"""The class of `torch.ops.aten.add`."""

HigherOrderOperator = torch._ops.HigherOrderOperator
"""The class of operators that take functions, such as the one of torch.cond."""

DispatchKey = _C.DispatchKey
"""Names an operator's kernels: torch.library takes the keys' names, the tables of kernels hold the keys themselves."""

TorchDispatchMode = torch.utils._python_dispatch.TorchDispatchMode
"""A mode that sees the operators called below autograd; the public mode of torch.overrides sees functions."""

get_decompositions = torch._decomp.get_decompositions
"""Returns the decompositions of given operators; only those of torch.export are public."""

scan = _scan
"""A loop along a dim, which a capture records; torch.cond and torch.while_loop are public, this one is not."""

map_impl = _map_impl
"""Maps a function over the first dim, as an operator."""

math_attention = _math_attention
"""PyTorch's own formula of flex_attention, for uncompiled code."""

tensor_with_sizes = torch._refs.tensor
"""torch.tensor for numbers among which sizes may be symbols."""

# -- tensors without content ------------------------------------------------------------------------------------------

FakeTensor = torch._subclasses.fake_tensor.FakeTensor
"""The class of tensors without content, on which torch.export runs a module."""

FakeTensorMode = torch._subclasses.fake_tensor.FakeTensorMode
"""A mode within which tensors have no content. PyTorch's documentation shows it, but no public name exists."""

NEEDS_CONTENT = (
    torch._subclasses.fake_tensor.DataDependentOutputException,
    torch._subclasses.fake_tensor.DynamicOutputShapeException,
)
"""What such a mode raises for operators whose result, or its shape, depends on numbers. No public names exist."""

is_fake = torch._subclasses.fake_tensor.is_fake
"""Returns whether a tensor has no content, whatever wraps it."""

infer_anew = FakeTensorMode._dispatch_impl
"""Returns the result of an operator without content, as a `FakeTensorMode` does for calls that its cache lacks."""

unset_fake_temporarily = torch._subclasses.fake_tensor.unset_fake_temporarily
"""A context within which functions compute with content although a capture is running."""

is_contiguous_or_false = torch._prims_common.is_contiguous_or_false
"""Returns whether a tensor is contiguous; False, without a guard, if that depends on symbolic sizes."""

proxy_tensor = _proxy_tensor
"""The module that records a capture's operators; it knows the node of each tensor."""

disable_proxy_modes_tracing = proxy_tensor.disable_proxy_modes_tracing
"""A context within which a capture records nothing."""

DisableTorchFunction = _C.DisableTorchFunction
"""A context within which no mode and no tensor subclass sees a call; torch.overrides has no public name for it."""

# -- nested containers ------------------------------------------------------------------------------------------------

pytree = torch.utils._pytree
"""Flattens nested containers. The public torch.utils.pytree may have another implementation than torch.export uses."""

fx_pytree = torch.fx._pytree
"""The functions with which torch.fx flattens the inputs of a graph."""

# -- TorchScript: the public torch.jit has Python's side only, and archives hold what is C++'s ------------------------

FloatType = _C.FloatType
"""The type of a float in TorchScript."""

ScriptGraph = _C.Graph
"""A TorchScript graph."""

ScriptModuleObject = _C.ScriptModule
"""The C++ object of a module, as attributes hold it."""

ScriptObject = _C.ScriptObject
"""The object of a TorchScript class, as attributes hold it."""

ScriptModuleDict = _C.ModuleDict
"""The submodules of a module, by name."""

ScriptParameterDict = _C.ParameterDict
"""The parameters of a module, by name."""

parse_schema = _C.parse_schema
"""Parses the text of a schema."""

# -- functions and names ----------------------------------------------------------------------------------------------

eager_transforms = _eager_transforms
"""The module of torch.func in which its functions look each other up."""

LossLayer = torch.nn.modules.loss._Loss
"""The base class of the loss layers."""

check: Callable[..., None] = torch._check
"""States a fact about sizes, which a capture adds to the program; torch.export's documentation recommends it."""

assert_true: Callable[..., None] = torch._assert
"""An assertion that a capture records."""

sparse_sum: Any = torch._sparse_sum
"""The function that `torch.sparse.sum` calls; modes see this one."""

gelu: Any = _C._nn.gelu
"""The function behind `torch.nn.functional.gelu`; files name it this way."""

make_per_tensor_quantized_tensor: Callable[..., Tensor] = torch._make_per_tensor_quantized_tensor
"""Makes a quantized tensor of existing integers; the public `quantize_per_tensor` rounds floats."""

make_per_channel_quantized_tensor: Callable[..., Tensor] = torch._make_per_channel_quantized_tensor
"""Makes a quantized tensor of existing integers, with one scale per channel."""

parse_to: Callable[..., tuple[Any, ...]] = _C._nn._parse_to
"""Parses the arguments of `Module.to` into device, dtype, blocking and layout."""

schemas_of_operator: Callable[[str], list[Any]] = _C._jit_get_schemas_for_operator
"""Returns the schemas of all overloads of `aten::add`, whichever library registered them; none for an unknown name."""

operator_of: Callable[[str, str], tuple[Any, ...]] = _C._get_operation_overload
"""Returns the callable of an operator's overload, its keys and its tags; torch.ops would load libraries for that."""

has_kernel: Callable[[str, str], bool] = _C._dispatch_has_kernel_for_dispatch_key
"""Returns whether an operator, `aten::add.Tensor`, has a kernel of its own for a key, named as in `DispatchKey`."""

inline_calls: Callable[[Any], None] = _C._jit_pass_inline
"""Inlines the functions and methods that a TorchScript graph calls."""

write_autocasts: Callable[[Any], None] = _C._jit_pass_autocast  # type: ignore[attr-defined]
"""Writes the casts of `torch.autocast` into a TorchScript graph, as PyTorch does before it runs one."""

function_of_graph: Callable[..., Any] = _C._create_function_from_graph
"""Makes a TorchScript function of a graph."""

script_class: Callable[[type], Any] = torch.jit._state._get_script_class
"""Returns the TorchScript class of a scripted Python class; None for another class."""

SIZE_LOGGER = "torch.fx.experimental.symbolic_shapes"
"""The logger that reports the lines of code which fix sizes."""

AT_FIRST_CAPTURE = (
    "sympy.tensor.tensor", "torch._export.passes.replace_autocast_with_hop_pass",
    "torch._export.passes.replace_set_grad_with_hop_pass", "torch._inductor.fx_passes.dedupe_symint_uses",
    "torch._inductor.sizevars", "torch._subclasses.schema_check_mode", "torch.fx.experimental.validator",
    "torch.utils.serialization.config",
)  # fmt: skip
"""The modules that PyTorch imports at its first capture; that takes as long as the capture of a small module."""

QUANTIZED_DECOMPOSED = "torch.ao.quantization.fx._decomposed"
"""The module that registers the operators `quantized_decomposed::…`."""


# -- parts of operators -----------------------------------------------------------------------------------------------


def schema_of(target: Any) -> Any:
    """Return the schema of an operator's overload; None if the target has none.

    torch.library has functions that declare schemas, but none that returns one.
    """
    return getattr(target, "_schema", None)


def packet_name(packet: OpOverloadPacket) -> str:
    """Return the name of an operator whose overload is not resolved: `aten::add`."""
    return packet._qualified_op_name


def kernel_caller(operator: OpOverload) -> Callable[..., Any]:
    """Return the function `(key, *args, **kwargs)` that calls the operator's own kernel for a key."""
    return operator._op_dk


class KernelTable(NamedTuple):
    """The Python kernels of an operator by key, and the cache of past lookups."""

    kernels: dict[Any, Callable[..., Any]]
    looked_up: Any


def kernel_table(operator: OpOverload) -> KernelTable:
    """Return the tables in which an operator finds its kernel; torch.library can add a kernel but not remove one."""
    return KernelTable(operator.py_kernels, operator._dispatch_cache)


def can_decompose(operator: OpOverload) -> bool:
    """Return whether PyTorch's C++ code writes an operator by others."""
    return bool(operator._can_decompose())


def matrix_check_effect() -> tuple[Any, str]:
    """Return the record of the effect that `_linalg_check_errors` has, and the name of the attribute that holds it."""
    return torch._library.simple_registry.singleton.find("aten::_linalg_check_errors").effect, "_effect"


def is_recorded_vmap(target: Any) -> bool:
    """Return whether a node calls what torch.vmap leaves in a program that was captured above autograd."""
    return getattr(target, "__module__", "") == "torch._functorch.predispatch"


def is_of_dynamo(error: BaseException) -> bool:
    """Return whether an error comes from the compiler, and not from the program itself."""
    return type(error).__module__.startswith("torch._dynamo")


# -- parts of modules -------------------------------------------------------------------------------------------------
# `named_buffers` and similar methods return existing tensors. These tables also hold None, keep their order, and can
# be changed.


def own_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """Return the table of a module's own buffers, by name."""
    return module._buffers


def own_parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return the table of a module's own parameters, by name."""
    return module._parameters


def own_parts(module: Any) -> dict[str, nn.Module | None]:
    """Return the table of a module's submodules, by name; an empty one if the module was not initialized."""
    return getattr(module, "_modules", {})


def change_tensors(module: nn.Module, change: Callable[[Tensor], Tensor]) -> nn.Module:
    """Replace each parameter and buffer of a module by the result of `change`, as `Module.to` does."""
    return module._apply(change)


def has_global_hooks() -> bool:
    """Return whether hooks are registered for the forward of every module."""
    module_hooks: Any = nn.modules.module
    return bool(module_hooks._global_forward_hooks or module_hooks._global_forward_pre_hooks)


def without_compiler(module: Any) -> Any:
    """Return the module that `torch.compile` has wrapped, whose parameters have the original names; any other
    unchanged.
    """
    return module._orig_mod if type(module).__name__ == "OptimizedModule" else module


def outputs_of_clusters(output: Tensor, loss: Tensor) -> Any:
    """Return the output of `nn.AdaptiveLogSoftmaxWithLoss`."""
    return nn.modules.adaptive._ASMoutput(output, loss)


# -- parts of tensors, graphs and programs ----------------------------------------------------------------------------


def writes_to(tensor: Tensor) -> int:
    """Return how many times a tensor was written to."""
    return tensor._version


def storage_number(tensor: Tensor) -> int:
    """Return a number that identifies a tensor's storage. Raises `NotImplementedError` for tensors without one."""
    return tensor.untyped_storage()._cdata


def vjp_of_arguments(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Call `torch.func.vjp` with derivatives for some of the arguments only."""
    found: tuple[Any, ...] = eager_transforms._vjp_with_argnums(*args, **kwargs)
    return found


def module_stack_tracer() -> Any:
    """Return the class that writes the graph of a capture, module by module."""
    return _proxy_tensor._ModuleStackTracer


def last_node(graph: fx.Graph) -> fx.Node:
    """Return the last node of a graph under construction, without a walk over all nodes."""
    return graph._root.prev


NAMES_OF_COMPILED_GRAPHS = ("forward", "_code", "_lineno_map", "_prologue_start", "_in_spec", "_out_spec")
"""What `GraphModule.recompile` sets: the function on the class, the rest on the object."""


def guard_texts(program: ExportedProgram) -> list[str]:
    """Return the conditions on sizes under which a program holds, as Python: `L['x'].size()[0] % 2 == 0`."""
    return list(getattr(program, "_guards_code", None) or ())


def set_graph(program: ExportedProgram, module: fx.GraphModule, signature: ExportGraphSignature) -> None:
    """Replace the graph and the signature of a program, in place."""
    program._graph_module = module
    program._graph_signature = signature


def with_graph(program: ExportedProgram, module: fx.GraphModule, signature: ExportGraphSignature) -> ExportedProgram:
    """Return a copy of the program with another graph and signature."""
    return program._update(module, signature)


def guards_left_out(program: ExportedProgram) -> AbstractContextManager[Any]:
    """Return a context in which questions about the sizes of a captured program add no guards and fix no size."""
    for node in program.graph.nodes:
        for dim in getattr(node.meta.get("val"), "shape", ()):
            if isinstance(dim, torch.SymInt):
                return dim.node.shape_env.suppress_guards()
    return nullcontext()


def keep_device_guard() -> None:
    """Set in this thread what PyTorch sets for a CUDA device, even if there is none.

    A build for CUDA, up to 2.11, sets it in the thread that captured first only, and crashes once that thread has
    ended.
    """
    _C._ensureCUDADeviceGuardSet()


def stands_for_min_or_max(code: CodeType) -> bool:
    """Return whether code is of the function that torch.export puts in place of Python's `min` and `max`.

    Its comparisons are the caller's. The same file calls operators, whose comparisons are not.
    """
    in_file = code.co_filename.endswith(os.path.join("torch", "_export", "non_strict_utils.py"))
    return in_file and code.co_qualname.startswith("_tensor_min_max")


# -- parts of TorchScript ---------------------------------------------------------------------------------------------


def script_object(module: torch.jit.ScriptModule) -> Any:
    """Return the C++ object of a module, from which attributes and methods of archives are read."""
    return module._c


def script_class_name(script: Any) -> str:
    """Return the qualified name of the class of a module's C++ object."""
    name: str = script._type().str()
    return name


def script_method(script: Any, name: str) -> Any:
    """Return a method of a module or of its C++ object, with its graph and its schema."""
    return getattr(script, "_c", script)._get_method(name)


def has_script_method(module: torch.jit.ScriptModule, name: str) -> bool:
    """Return whether a module has a compiled method of this name."""
    return bool(module._c._has_method(name))


def script_method_names(module: torch.jit.ScriptModule) -> list[str]:
    """Return the names of all compiled methods."""
    return list(module._c._method_names())


def script_hooks(script: Any) -> tuple[list[Any], list[Any]]:
    """Return the compiled hooks of a module, or of its C++ object: those before forward, and those after it."""
    found = getattr(script, "_c", script)
    return list(found._get_forward_pre_hooks()), list(found._get_forward_hooks())


# -- modules that are imported late -----------------------------------------------------------------------------------


def import_compiler() -> ModuleType:
    """Import Dynamo, which takes a second; torch.export imports it at its first capture."""
    return importlib.import_module("torch._dynamo")


def export_below_autograd(module: nn.Module, *args: Any, **options: Any) -> ExportedProgram:
    """Call the function behind `torch.export.export`, which has an option to record below autograd."""
    program: ExportedProgram = importlib.import_module("torch.export._trace")._export(module, *args, **options)
    return program


def export_schema() -> tuple[int, int]:
    """Return the schema in which this PyTorch writes exported programs; it loads those with the same first number."""
    major, minor = importlib.import_module("torch._export.serde.schema").SCHEMA_VERSION
    return int(major), int(minor)
