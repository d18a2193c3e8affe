"""The builder that rules write to: `net.Relu(x)`, `net.op("Conv", [x, w], kernels=[3, 3])`, constants and facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.tensors import dims_of, tensor_of, transposed_tensor

from .blob import Blob, Dim
from .shape_inference import infer

# Maximum size in bytes of constants that are shared if they are equal.
_SMALL = 4096


Argument: TypeAlias = "bool | int | float | str | Sequence[int] | Sequence[float] | Sequence[str] | Net"


@dataclass(eq=False)
class Op:
    """An operator of the net, with its `Argument`s by name; `engine` and `device` select its kernel."""

    type: str
    inputs: list[Blob]
    outputs: list[Blob]
    args: dict[str, Argument]
    engine: str = ""
    device: int = 0

    def reads(self) -> Iterable[Blob]:
        """Yield the names of the blobs that the operator reads, including those of nets among its arguments."""
        yield from self.inputs
        for value in self.args.values():
            if isinstance(value, Net):
                for op in value.ops:
                    yield from op.reads()
                yield from value.outputs


@dataclass(eq=False)
class Net:
    """A Caffe2 net under construction; `parent` is the net around a branch or loop body.

    `label` prefixes the names of intermediate blobs of a rule. `results` are the output values of the current ONNX
    node, for a rule that needs their shapes. `aten` allows the operator ATen, which desktop builds of the runtime have.
    """

    parent: Net | None = None
    ops: list[Op] = field(default_factory=list)
    inputs: list[Blob] = field(default_factory=list)
    outputs: list[Blob] = field(default_factory=list)
    label: str = ""
    results: Sequence[ir.Value] = ()
    aten: bool = False

    def __post_init__(self) -> None:
        self.root: Net = self.parent.root if self.parent else self
        self._names: set[str] = set()
        self._claimed: set[str] = set()
        self._constants: dict[tuple[Any, ...], Blob] = {}

    # -- operators ------------------------------------------------------------------------------------------------

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        if not operator[:1].isupper():
            raise AttributeError(operator)

        def add(*inputs: Blob, outputs: int = 1, **args: Argument) -> Any:
            return self.op(operator, inputs, outputs=outputs, **args)

        return add

    def op(self, operator: str, inputs: Sequence[Blob], /, *, outputs: int = 1, **args: Argument) -> Any:
        """Append a Caffe2 operator; return its output, or the list of its outputs if `outputs` is not 1.

        The dtype and shape of an output come from `infer`; `net.facts` can state more. Pass floats as floats: the
        runtime distinguishes the arguments 1 and 1.0.
        """
        dtype, shape = infer(operator, inputs, args)
        made = [Blob(self.unique(f"{self.label or operator}.{operator}"), dtype, shape) for _ in range(outputs)]
        self.ops.append(Op(operator, list(inputs), made, dict(args)))
        return made[0] if outputs == 1 else made

    def body(self) -> Net:
        """Return a net for an argument of `If`, `While` …; it may read the blobs of this one."""
        return Net(parent=self, label=self.label)

    # -- constants and facts --------------------------------------------------------------------------------------

    def const(self, content: Any, dtype: ir.DataType | None = None, name: str | None = None) -> Blob:
        """Return a constant from a number, a list, an array or a tensor (which may be lazy); equal small ones are
        shared.

        Python floats become float32 and ints int64 unless `dtype` says otherwise.
        """
        tensor = tensor_of(content, dtype)
        if name is not None or tensor.nbytes > _SMALL:
            return self._constant(name or f"{self.label}.const", tensor)
        return self._shared_constant(
            (tensor.dtype, tuple(tensor.shape), tensor.tobytes()), f"{self.label}.const", tensor
        )

    def transposed_constant(self, x: Blob, axes: Sequence[int]) -> Blob:
        """Return a constant with its axes permuted lazily; repeated calls share one blob."""
        if x.content is None:
            raise ValueError(f"{x.name} is no constant")
        if list(axes) == list(range(len(x.content.shape))):
            return x
        return self._shared_constant((x, tuple(axes)), f"{x.name}.transposed", transposed_tensor(x.content, axes))

    def facts(self, x: Blob, dtype: ir.DataType | None = None, shape: Sequence[Dim] | None = None) -> Blob:
        """State facts that are known about `x`."""
        x.dtype = x.dtype if dtype is None else dtype
        x.shape = x.shape if shape is None else tuple(shape)
        return x

    def static(self, x: Blob | None) -> np.ndarray | None:
        """Return the content of a constant, else None."""
        return None if x is None or x.content is None else x.content.numpy()

    def need(self, x: Blob, what: str) -> np.ndarray:
        """Return the content of a constant. For other values raises `Unsupported`, saying that `what` is computed at
        run time.
        """
        content = self.static(x)
        if content is None:
            raise Unsupported(f"{what} is computed at run time; Caffe2 needs it as a constant")
        return content

    def shape(self, x: Blob) -> tuple[Dim, ...]:
        """Return dims as ints, names or None. Raises `Unsupported` if the rank is unknown."""
        if x.shape is None:
            raise Unsupported(f"the rank of {x.name} is unknown")
        return x.shape

    def rank(self, x: Blob) -> int:
        """Return the number of dims. Raises `Unsupported` if it is unknown."""
        return len(self.shape(x))

    def axis(self, x: Blob, axis: int) -> int:
        """Return `axis` of `x` counted from the front. Raises `Unsupported` if that needs an unknown rank."""
        return axis if axis >= 0 else axis + self.rank(x)

    # -- names ----------------------------------------------------------------------------------------------------

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve `names`, so that intermediate blobs of rules do not get them."""
        self.root._names.update(names)

    def claim(self, name: str) -> str:
        """Return a reserved name to the first caller that asks for it, and a unique name to later callers."""
        claimed = self.root._claimed
        if name in claimed:
            return self.unique(name)
        claimed.add(name)
        return name

    def unique(self, name: str) -> str:
        """Return `name`, or `name_2`, `name_3` … if it is in use."""
        names, candidate, n = self.root._names, name, 1
        while candidate in names:
            n += 1
            candidate = f"{name}_{n}"
        names.add(candidate)
        return candidate

    def _shared_constant(self, key: tuple[Any, ...], name: str, tensor: ir.TensorProtocol) -> Blob:
        constants = self.root._constants
        if key not in constants:
            constants[key] = self._constant(name, tensor)
        return constants[key]

    def _constant(self, name: str, tensor: ir.TensorProtocol) -> Blob:
        return Blob(self.unique(name), tensor.dtype, dims_of(tensor), tensor)
