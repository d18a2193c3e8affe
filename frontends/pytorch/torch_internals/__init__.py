"""The private parts of PyTorch that this package uses, by names that say what they are.

No other module of the package imports or names a private part: what a new release of PyTorch moves is moved here.
`tests/frontends/pytorch/test_torch_internals.py` holds the wall. Private means `torch._x`, names that begin with `_` in
a public module, private attributes of PyTorch's objects, and `torch.fx.experimental`, which promises nothing.

All of this module is loaded by `import torch` itself, so that it costs nothing. `symbols` has what imports sympy; what
imports Dynamo or the serializer of programs is imported by a function. Two other places are allowed to name private
parts: the table of patches (`export/patch_table.py`), which names what is replaced, and `common/late_imports.py`,
which changes how PyTorch is imported and so may not import it. A name exists in 2.13 and 2.14 unless
its comment says otherwise.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
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
"""The class of `torch.ops.aten.add.Tensor`, by which a target of a captured program is told: no public name has it."""

OpOverloadPacket = torch._ops.OpOverloadPacket
"""The class of `torch.ops.aten.add`."""

HigherOrderOperator = torch._ops.HigherOrderOperator
"""The class of operators that are given functions, such as the one of torch.cond."""

DispatchKey = _C.DispatchKey
"""Which of an operator's kernels: torch.library takes the names of keys, the tables of kernels hold the keys."""

TorchDispatchMode = torch.utils._python_dispatch.TorchDispatchMode
"""Sees the operators that are called below autograd; the public mode of torch.overrides sees functions."""

get_decompositions = torch._decomp.get_decompositions
"""The decompositions of given operators: those of torch.export are public, the further ones are not."""

scan = _scan
"""A loop along a dim, which a capture records; of its kin torch.cond and torch.while_loop are public."""

map_impl = _map_impl
"""The map of a function over the first dim, as an operator."""

math_attention = _math_attention
"""PyTorch's own formula of flex_attention, for where nothing is compiled."""

tensor_with_sizes = torch._refs.tensor
"""torch.tensor, with sizes that are symbols among the numbers."""

# -- tensors without content ------------------------------------------------------------------------------------------

FakeTensor = torch._subclasses.fake_tensor.FakeTensor
"""The class of tensors without content, which torch.export runs a module on."""

FakeTensorMode = torch._subclasses.fake_tensor.FakeTensorMode
"""Inside, tensors have no content. PyTorch's documentation shows it, and has no public name for it."""

is_fake = torch._subclasses.fake_tensor.is_fake
"""Whether a tensor has no content, whatever is around it."""

unset_fake_temporarily = torch._subclasses.fake_tensor.unset_fake_temporarily
"""Inside, functions compute with content in spite of a capture."""

is_contiguous_or_false = torch._prims_common.is_contiguous_or_false
"""Whether a tensor lies in one piece; False where that depends on sizes, of which it makes no guard."""

proxy_tensor = _proxy_tensor
"""What records the operators of a capture: which node a tensor stands for."""

disable_proxy_modes_tracing = proxy_tensor.disable_proxy_modes_tracing
"""Inside, a capture records nothing."""

DisableTorchFunction = _C.DisableTorchFunction
"""Inside, tensors tell no mode and no subclass of a call; torch.overrides has no public name for it."""

# -- nested containers ------------------------------------------------------------------------------------------------

pytree = torch.utils._pytree
"""Takes containers apart. The public torch.utils.pytree may be another implementation than torch.export's."""

fx_pytree = torch.fx._pytree
"""How torch.fx takes the inputs of a graph apart."""

# -- TorchScript: the public torch.jit has Python's side only, and archives hold what is C++'s ------------------------

FloatType = _C.FloatType
"""The type of a number in TorchScript."""

ScriptGraph = _C.Graph
"""A TorchScript graph."""

ScriptModuleObject = _C.ScriptModule
"""The C++ object of a module, as attributes hold it."""

ScriptObject = _C.ScriptObject
"""The object of a TorchScript class, as attributes hold it."""

ScriptModuleDict = _C.ModuleDict
"""The parts of a module by name."""

ScriptParameterDict = _C.ParameterDict
"""The parameters of a module by name."""

parse_schema = _C.parse_schema
"""The schema that a text says."""

# -- functions and names ----------------------------------------------------------------------------------------------

eager_transforms = _eager_transforms
"""The module of torch.func in which its functions look each other up."""

LossLayer = torch.nn.modules.loss._Loss
"""The class of all loss layers."""

check: Callable[..., None] = torch._check
"""States a fact about sizes, to which a capture holds the program; torch.export's documentation asks for it."""

assert_true: Callable[..., None] = torch._assert
"""An assertion that a capture records."""

sparse_sum: Any = torch._sparse_sum
"""The function that `torch.sparse.sum` calls, with which modes are told of it."""

gelu: Any = _C._nn.gelu
"""The function that `torch.nn.functional.gelu` is: files have it by this name."""

make_per_tensor_quantized_tensor: Callable[..., Tensor] = torch._make_per_tensor_quantized_tensor
"""A quantized tensor of integers that are there; the public `quantize_per_tensor` rounds floats."""

make_per_channel_quantized_tensor: Callable[..., Tensor] = torch._make_per_channel_quantized_tensor
"""The same with a scale for each channel."""

parse_to: Callable[..., tuple[Any, ...]] = _C._nn._parse_to
"""Device, dtype, blocking and layout out of the arguments of `Module.to`."""

schemas_of_operator: Callable[[str], list[Any]] = _C._jit_get_schemas_for_operator
"""The schemas of all overloads of `aten::add`, registered by whichever library; empty for a name that is none."""

operator_of: Callable[[str, str], tuple[Any, ...]] = _C._get_operation_overload
"""What calls an operator by its name and its overload's, its keys, and its tags; torch.ops loads libraries for it."""

has_kernel: Callable[[str, str], bool] = _C._dispatch_has_kernel_for_dispatch_key
"""Whether an operator, `aten::add.Tensor`, has a kernel of its own for a key, named as in `DispatchKey`."""

inline_calls: Callable[[Any], None] = _C._jit_pass_inline
"""Write the graphs of functions and methods that a TorchScript graph calls in their places."""

write_autocasts: Callable[[Any], None] = _C._jit_pass_autocast  # type: ignore[attr-defined]
"""Write the casts of `torch.autocast` into a TorchScript graph, as PyTorch does before it runs one."""

function_of_graph: Callable[..., Any] = _C._create_function_from_graph
"""A TorchScript function of a graph."""

script_class: Callable[[type], Any] = torch.jit._state._get_script_class
"""What a Python class was scripted as; None for another one."""

SIZE_LOGGER = "torch.fx.experimental.symbolic_shapes"
"""The logger that says which lines fix which sizes."""

AT_FIRST_CAPTURE = (
    "sympy.tensor.tensor", "torch._export.passes.replace_autocast_with_hop_pass",
    "torch._export.passes.replace_set_grad_with_hop_pass", "torch._inductor.fx_passes.dedupe_symint_uses",
    "torch._inductor.sizevars", "torch._subclasses.schema_check_mode", "torch.fx.experimental.validator",
    "torch.utils.serialization.config",
)  # fmt: skip
"""The modules that PyTorch imports when it first captures, which takes as long as the capture of a small module."""

QUANTIZED_DECOMPOSED = "torch.ao.quantization.fx._decomposed"
"""The module that registers the operators `quantized_decomposed::…`."""


# -- parts of operators -----------------------------------------------------------------------------------------------


def schema_of(target: Any) -> Any:
    """Return the schema of an operator's overload; None for what has none.

    torch.library has functions that declare schemas, and none that gives one.
    """
    return getattr(target, "_schema", None)


def packet_name(packet: OpOverloadPacket) -> str:
    """Return the name of an operator whose overload is not chosen: `aten::add`."""
    return packet._qualified_op_name


def kernel_caller(operator: OpOverload) -> Callable[..., Any]:
    """Return the function `(key, *args, **kwargs)` that calls the operator's own kernel for a key."""
    return operator._op_dk


class KernelTable(NamedTuple):
    """The Python kernels of an operator by key, and what was looked up in them before."""

    kernels: dict[Any, Callable[..., Any]]
    looked_up: Any


def kernel_table(operator: OpOverload) -> KernelTable:
    """Return the tables in which an operator finds its kernel: torch.library can add one, not take it away again."""
    return KernelTable(operator.py_kernels, operator._dispatch_cache)


def matrix_check_effect() -> tuple[Any, str]:
    """Return the record that says which effect `_linalg_check_errors` has, and the attribute that holds it."""
    return torch._library.simple_registry.singleton.find("aten::_linalg_check_errors").effect, "_effect"


def is_recorded_vmap(target: Any) -> bool:
    """Whether a node calls what torch.vmap leaves in a program that was captured above autograd."""
    return getattr(target, "__module__", "") == "torch._functorch.predispatch"


def is_higher_order(function: Any) -> bool:
    """Whether a Python function belongs to a higher-order operator, such as torch.cond."""
    return (getattr(function, "__module__", None) or "").startswith("torch._higher_order_ops")


def is_of_dynamo(error: BaseException) -> bool:
    """Whether an error is one of the compiler's, which the program itself did not raise."""
    return type(error).__module__.startswith("torch._dynamo")


# -- parts of modules -------------------------------------------------------------------------------------------------
# `named_buffers` and its like give what is there; these tables also hold None, keep their order, and can be changed.


def own_buffers(module: nn.Module) -> dict[str, Tensor | None]:
    """Return the table of a module's own buffers, by name."""
    return module._buffers


def own_parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return the table of a module's own parameters, by name."""
    return module._parameters


def own_parts(module: Any) -> dict[str, nn.Module | None]:
    """Return the table of a module's parts, by name; an empty one for what was not initialized."""
    return getattr(module, "_modules", {})


def change_tensors(module: nn.Module, change: Callable[[Tensor], Tensor]) -> nn.Module:
    """Replace each parameter and buffer of a module by what `change` gives for it, as `Module.to` does."""
    return module._apply(change)


def has_global_hooks() -> bool:
    """Whether hooks are registered for the forward of every module."""
    room: Any = nn.modules.module
    return bool(room._global_forward_hooks or room._global_forward_pre_hooks)


def without_compiler(module: Any) -> Any:
    """Return the module that `torch.compile` has wrapped, whose parameters have the names; any other as it is."""
    return module._orig_mod if type(module).__name__ == "OptimizedModule" else module


def outputs_of_clusters(output: Tensor, loss: Tensor) -> Any:
    """Return what `nn.AdaptiveLogSoftmaxWithLoss` returns."""
    return nn.modules.adaptive._ASMoutput(output, loss)


# -- parts of tensors, graphs and programs ----------------------------------------------------------------------------


def writes_to(tensor: Tensor) -> int:
    """Return how often a tensor was written to."""
    return tensor._version


def storage_number(tensor: Tensor) -> int:
    """Return a number that identifies a tensor's storage. Raises `NotImplementedError` for tensors without one."""
    return tensor.untyped_storage()._cdata


def vjp_of_arguments(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Call `torch.func.vjp` with derivatives by some of the arguments only."""
    found: tuple[Any, ...] = eager_transforms._vjp_with_argnums(*args, **kwargs)
    return found


def module_stack_tracer() -> Any:
    """Return the class of what writes the graph of a capture, module by module."""
    return _proxy_tensor._ModuleStackTracer


def last_node(graph: fx.Graph) -> fx.Node:
    """Return the last node of a graph that is being written, without going through all."""
    return graph._root.prev


def guard_texts(program: ExportedProgram) -> list[str]:
    """Return the conditions on sizes under which a program holds, as Python: `L['x'].size()[0] % 2 == 0`."""
    return list(getattr(program, "_guards_code", None) or ())


def set_graph(program: ExportedProgram, module: fx.GraphModule, signature: ExportGraphSignature) -> None:
    """Give a program another graph and signature, in place."""
    program._graph_module = module
    program._graph_signature = signature


def with_graph(program: ExportedProgram, module: fx.GraphModule, signature: ExportGraphSignature) -> ExportedProgram:
    """Return a program like this one with another graph and signature."""
    return program._update(module, signature)


# -- parts of TorchScript ---------------------------------------------------------------------------------------------


def script_object(module: torch.jit.ScriptModule) -> Any:
    """Return the C++ object of a module, which attributes and methods of archives are read from."""
    return module._c


def script_method(thing: Any, name: str) -> Any:
    """Return a method, with its graph and its schema, of a module or of its C++ object."""
    return getattr(thing, "_c", thing)._get_method(name)


def has_script_method(module: torch.jit.ScriptModule, name: str) -> bool:
    """Whether a module has a method that was compiled."""
    return bool(module._c._has_method(name))


def script_method_names(module: torch.jit.ScriptModule) -> list[str]:
    """Return the names of all methods that were compiled."""
    return list(module._c._method_names())


def script_hooks(thing: Any) -> tuple[list[Any], list[Any]]:
    """Return the compiled hooks of a module, or of its C++ object: those before forward, and those after it."""
    found = getattr(thing, "_c", thing)
    return list(found._get_forward_pre_hooks()), list(found._get_forward_hooks())


# -- modules that are imported late -----------------------------------------------------------------------------------


def import_compiler() -> ModuleType:
    """Import Dynamo, which takes a second and which torch.export imports at its first capture."""
    return importlib.import_module("torch._dynamo")


def export_below_autograd(module: nn.Module, *args: Any, **options: Any) -> ExportedProgram:
    """Call what `torch.export.export` calls, which can be told to record below autograd."""
    program: ExportedProgram = importlib.import_module("torch.export._trace")._export(module, *args, **options)
    return program


def import_serializer() -> ModuleType:
    """Import the module that reads and writes exported programs."""
    return importlib.import_module("torch._export.serde.serialize")
