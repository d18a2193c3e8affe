"""Lowers the functions of a module operator by operator; calls are inlined, and so are composites without a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from jaxlib.mlir import ir as mlir

from convert import limits
from convert.errors import BadInput, ConvertError, Location, ResourceLimit, Unsupported, contradiction
from convert.graph import Graph
from convert.graph.values import known_dims

from . import ops  # noqa: F401  (fills the table)
from .complexes import has_complex_form, is_complex, lower_complex
from .ops.shape import broadcast_operands
from .places import location_of
from .regions import Region, attribute_of
from .rules import ELEMENTWISE, ON_TENSORS, stablehlo_op
from .shape_arithmetic import folded_sizes
from .types import FOUR_BITS, ResultType, attribute_value, constant_array, is_quantized, result_type
from .values import Pair, Tensor, as_sizes, merge_dims, plain, whole

Env = dict[mlir.Value, Any]

MOVING = frozenset({"convert", "select", "optimization_barrier"})
"""Element-wise operators that compute nothing."""

MOVING_INTEGERS = frozenset(
    """
    uniform_quantize uniform_dequantize reshape dynamic_reshape broadcast_in_dim dynamic_broadcast_in_dim
    transpose slice real_dynamic_slice dynamic_slice dynamic_update_slice concatenate reverse pad dynamic_pad gather
    dynamic_gather select optimization_barrier get_dimension_size
    """.split()  # noqa: SIM905 (a table)
)
"""Operators whose rules may take quantized tensors, which these rules treat as integers."""

TAKES_PAIRS = frozenset({"while", "case", "if", "sort"})
"""Operators whose rules take complex tensors, because their regions do."""

CALLS = ("func.call", "stablehlo.composite", "call")
RETURNS = ("func.return", "stablehlo.return", "return")

SHAPE_OPERANDS = "indices_of_shape_operands"
"""Attribute of custom calls that lists operands with the shapes of results, for results of dynamic size."""

BROADCASTING = "chlo.broadcast_"
"""Prefix of operators that broadcast their operands, and are lowered as the operators without it."""


class Walker:
    """Lowers the operators of one module."""

    def __init__(self, module: mlir.Module) -> None:
        self.module = module  # the operators live as long as the module
        self.functions: dict[str, mlir.Operation] = {}
        for op in module.body.operations:
            if op.operation.name == "func.func":
                self.functions[attribute_value(op.attributes["sym_name"])] = op.operation
        self.depth = 0
        self.count = 0

    def main(self) -> mlir.Operation:
        """Return the main function. Raises `BadInput` if there is none."""
        public = [f for f in self.functions.values() if _is_public(f)]
        found = self.functions.get("main") or (public[0] if len(public) == 1 else None)
        if found is None:
            hint = f"it has {', '.join(self.functions)}" if self.functions else "export it again, as one module"
            raise BadInput("the module has no function main", hint=hint)
        if not len(found.regions[0].blocks):
            raise BadInput("the module declares its function main, but has no body of it", hint="export it again")
        return found

    def operators(self, function: mlir.Operation) -> Iterator[tuple[str, Location]]:
        """Yield every operator that is lowered for `function`, with its location.

        Raises `ResourceLimit` if functions that call one another expand to too many operators.
        """
        self._size(function, {}, 0)
        seen: set[str] = set()
        pending = [function]
        while pending:
            for op in _all_operations(pending.pop()):
                name = operator_name(op)
                callee = self._callee(op)
                if callee is not None and name not in stablehlo_op:
                    if callee not in seen and callee in self.functions:
                        seen.add(callee)
                        pending.append(self.functions[callee])
                elif name not in ("constant", *RETURNS):
                    yield name, location_of(op, name)

    def _size(self, function: mlir.Operation, known: dict[str, int], depth: int) -> int:
        """Return how many operators are lowered for `function`; `known` has the counts of functions counted before.

        Raises `ResourceLimit` if there are too many, or if the calls are nested too deep.
        """
        if depth >= limits.STABLEHLO_CALL_DEPTH:
            raise _too_deep(depth)
        size = 0
        for op in _all_operations(function):
            size += 1
            callee = self._callee(op)
            if callee in self.functions and operator_name(op) not in stablehlo_op:
                if callee not in known:
                    known[callee] = self._size(self.functions[callee], known, depth + 1)
                size += known[callee]
            if size > limits.STABLEHLO_OPERATORS:
                raise _too_many()
        return size

    def function(
        self, g: Graph, function: mlir.Operation, arguments: Sequence[Any], *, lifted: bool = False
    ) -> list[Any]:
        """Return the results of a function on `arguments`. Raises `BadInput` if the call does not fit the function.

        lifted: as in `block`.
        """
        if self.depth >= limits.STABLEHLO_CALL_DEPTH:
            raise _too_deep(self.depth)
        blocks = function.regions[0].blocks  # a function that is only declared has no block
        if len(blocks) != 1 or len(blocks[0].arguments) != len(arguments):
            raise BadInput(f"the module calls {function.attributes['sym_name']} with {len(arguments)} arguments")
        self.depth += 1
        try:
            return self.block(g, blocks[0], dict(zip(blocks[0].arguments, arguments, strict=True)), lifted=lifted)
        finally:
            self.depth -= 1

    def block(self, g: Graph, block: mlir.Block, env: Env, *, lifted: bool = False) -> list[Any]:
        """Return the results of a block. `lifted`: its scalars are tensors of any dims, so that it computes all
        elements at once.
        """
        for op in block.operations:
            operation = op.operation
            self.count += 1
            if self.count > limits.STABLEHLO_OPERATORS:
                raise _too_many()
            if operation.name in RETURNS:
                return [env[v] for v in operation.operands]
            name = operator_name(operation)
            at = location_of(operation, name)
            with g.at(at):
                results = self._lower(g, operation, name, env, at, lifted)
            env.update(zip(operation.results, results, strict=True))
        raise BadInput("a block of the module does not end with a return")

    def _lower(
        self, g: Graph, op: mlir.Operation, name: str, env: Env, at: Location, lifted: bool
    ) -> Sequence[Tensor | None]:
        operands = [env[v] for v in op.operands]
        callee = self._callee(op)
        pairs = any(isinstance(t, Pair) for t in operands)
        if callee is not None and (name not in stablehlo_op or (pairs and not has_complex_form(name))):
            if callee not in self.functions:
                raise BadInput(f"{at}: the module has no function {callee!r}")
            return self.function(g, self.functions[callee], operands, lifted=lifted)
        try:
            types = [result_type(r.type) for r in op.results]
            if op.name.startswith(BROADCASTING):
                operands = broadcast_operands(g, operands, attribute_of(op, "broadcast_dimensions"))
            if shapes := set(attribute_of(op, SHAPE_OPERANDS) if SHAPE_OPERANDS in op.attributes else ()):
                operands = [t for k, t in enumerate(operands) if k not in shapes]
            if is_complex(operands, types) and name not in TAKES_PAIRS:

                def run(parts: Sequence[Any], types: list[Any] = types) -> Sequence[Tensor | None]:
                    return self._lower_real(g, op, name, parts, types, env, at, lifted)

                return lower_complex(g, op, name, operands, types, run, lifted)
            return self._lower_real(g, op, name, operands, types, env, at, lifted)
        except Unsupported as error:
            raise error.with_location(at) from error
        except ConvertError as error:
            if isinstance(error, (BadInput, ResourceLimit)):
                raise
            raise contradiction(error) from error

    def _lower_real(
        self, g: Graph, op: mlir.Operation, name: str, operands: Sequence[Any], types: list[Any], env: Env,
        at: Location, lifted: bool,
    ) -> Sequence[Tensor | None]:  # fmt: skip
        """Return the results of an operator on real numbers, or one part of the results on complex numbers."""
        if name == "constant":
            return [_constant(g, op, types[0])]
        if lifted and name not in ELEMENTWISE and any(t is None or t.rank for t in types):
            raise Unsupported("in the region of a reduction or a sort")
        if name not in MOVING_INTEGERS and any(is_quantized(v.type) for v in (*op.operands, *op.results)):
            raise Unsupported("quantized tensors")
        narrow = any(isinstance(t, Tensor) and t.value.dtype in FOUR_BITS for t in operands)
        if narrow and name in ELEMENTWISE - MOVING:
            raise Unsupported("arithmetic of integers of four bits")
        sizes = folded_sizes(name, operands, op, types)
        if sizes is not None and (known := _known_content(g, sizes, types[0])) is not None:
            return [known]
        found = self._apply(g, op, name, operands, types, env, at)
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(results) != len(types):
            raise BadInput(f"{at}: {len(types)} results, where the rule makes {len(results)}")
        made = [
            _finished(g, result, type_, operands if name in ELEMENTWISE else (), lifted)
            for result, type_ in zip(results, types, strict=True)
        ]
        if sizes is not None and isinstance(made[0], Tensor):
            made[0] = replace(made[0], sizes=sizes)
        return made

    def _apply(
        self, g: Graph, op: mlir.Operation, name: str, operands: Sequence[Any], types: list[Any], env: Env, at: Location
    ) -> Any:
        entry = stablehlo_op.entries.get(name)
        attributes = {key: attribute_value(op.attributes[key]) for key in op.attributes}
        if op.name.startswith(BROADCASTING):
            attributes.pop("broadcast_dimensions", None)
        if name in ("custom_call", "composite") or name.startswith(("@", "chlo.")):
            attributes = _inner_attributes(attributes, op)
        offered = {
            "result": types[0] if types else None,
            "results": types,
            "regions": self._regions(op, env),
            "operand_types": [result_type(v.type) for v in op.operands],
            "sizes": [t.sizes if isinstance(t, Tensor) else None for t in operands],
        }
        attributes |= {k: v for k, v in offered.items() if entry is not None and k in entry.keyword}
        given: list[Any]
        if name in ON_TENSORS:
            given = list(operands)
        elif name in ELEMENTWISE:
            given = [t.value for t in operands]
        else:
            given = [whole(g, t).value if isinstance(t, Tensor) else t for t in operands]
        return stablehlo_op.apply(g, name, given, attributes, at)

    def _regions(self, op: mlir.Operation, env: Env) -> list[Region]:
        """Return the regions of an operator; for a custom call, the functions that it applies."""
        blocks = [region.blocks[0] for region in op.regions if len(region.blocks)]
        return [
            Region(self.block, block, env) for block in (*blocks, *(f.regions[0].blocks[0] for f in self._applied(op)))
        ]

    def _applied(self, op: mlir.Operation) -> list[mlir.Operation]:
        """Return the functions of the module that a custom call applies. Raises `BadInput` for one that it lacks."""
        names = attribute_of(op, "called_computations") or [] if op.name == "stablehlo.custom_call" else []
        if missing := [
            name for name in names if name not in self.functions or not self.functions[name].regions[0].blocks
        ]:
            raise BadInput(f"the module has no function {missing[0]!r}")
        return [self.functions[name] for name in names]

    def _callee(self, op: mlir.Operation) -> str | None:
        """Return the function that an operator calls, or None."""
        if op.name == "stablehlo.composite":
            return str(attribute_value(op.attributes["decomposition"]))
        return str(attribute_value(op.attributes["callee"])) if op.name in CALLS else None


def _too_deep(depth: int) -> ResourceLimit:
    hint = "a program can set convert.limits.STABLEHLO_CALL_DEPTH"
    return ResourceLimit(f"functions of the module call one another {depth} deep", hint=hint)


def _too_many() -> ResourceLimit:
    hint = "a program can set convert.limits.STABLEHLO_OPERATORS"
    text = f"the functions of the module expand to more than {limits.STABLEHLO_OPERATORS:,} operators"
    return ResourceLimit(text, hint=hint)


def operator_name(op: mlir.Operation) -> str:
    """Return the table's key for an operator: `add`, `chlo.erf`, `@lapack_spotrf_ffi`."""
    if op.name == "stablehlo.custom_call":
        target = str(attribute_value(op.attributes["call_target_name"]))
        # CHLO operators that a portable artefact of StableHLO cannot contain.
        return target.replace("mhlo.", "chlo.", 1) if target.startswith("mhlo.") else f"@{target}"
    if op.name == "stablehlo.composite":
        name = str(attribute_value(op.attributes["name"]))
        return name if name in stablehlo_op else "composite"
    if op.name.startswith(BROADCASTING):
        name = op.name.removeprefix(BROADCASTING)
        return name if name in stablehlo_op else f"chlo.{name}"
    return "constant" if op.name == "chlo.constant" else op.name.removeprefix("stablehlo.")


def _is_public(function: mlir.Operation) -> bool:
    visibility = attribute_of(function, "sym_visibility")
    return visibility is None or visibility == "public"


_OWN_REGIONS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if", "func.func"})
"""Operators whose regions are lowered with the operators around them."""


def _all_operations(op: mlir.Operation) -> Iterator[mlir.Operation]:
    """Yield the operators in the regions of an operator, at any depth."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _all_operations(inner.operation)


_CALLED_BY = frozenset(
    {"call_target_name", "api_version", "has_side_effect", "operand_layouts", "result_layouts", "called_computations",
     "output_operand_aliases", "name", "version", "decomposition", "composite_attributes", "mhlo.backend_config",
     "backend_config", "mhlo.attributes", "mhlo.version", SHAPE_OPERANDS}
)  # fmt: skip


def _inner_attributes(attributes: Mapping[str, Any], op: mlir.Operation) -> dict[str, Any]:
    """Return the attributes of the function that a composite or custom call stands for, without those that describe the
    call.
    """
    found = {key: value for key, value in attributes.items() if key not in _CALLED_BY}
    for key in ("composite_attributes", "mhlo.backend_config", "backend_config", "mhlo.attributes"):
        inner = attributes.get(key)
        if isinstance(inner, dict):
            found |= inner
    return found


def _constant(g: Graph, op: mlir.Operation, type_: ResultType | None) -> Tensor:
    """Return a constant; a single number for all elements is broadcast only when it is needed whole."""
    assert type_ is not None
    attribute = op.attributes["value"]
    array = constant_array(attribute) if isinstance(attribute, mlir.DenseElementsAttr) else attribute_value(attribute)
    dims = tuple(d or 0 for d in type_.dims)
    if array.size > 1 and isinstance(attribute, mlir.DenseElementsAttr) and attribute.is_splat:
        number = g.const(ir.Tensor(array.ravel()[0].reshape(()), dtype=type_.dtype))
        return Tensor(number, dims, frozenset(range(len(dims))), sizes=as_sizes(array))
    return Tensor(g.const(ir.Tensor(array, dtype=type_.dtype)), dims, sizes=as_sizes(array))


def _known_content(g: Graph, sizes: Any, type_: ResultType | None) -> Tensor | None:
    """Return a constant for a tensor whose content is known for all inputs."""
    numbers = [size.number for size in sizes.ravel().tolist()]
    if type_ is None or None in numbers:
        return None
    array = np.array(numbers, type_.dtype.numpy()).reshape(sizes.shape)
    return Tensor(g.const(ir.Tensor(array, dtype=type_.dtype)), sizes.shape, sizes=sizes)


def _finished(g: Graph, result: Any, type_: ResultType | None, operands: Sequence[Any], lifted: bool) -> Tensor | None:
    """Return the result of a rule as a tensor with the dims and dtype of the module."""
    if isinstance(result, (Tensor, Pair)) or result is None or type_ is None:
        return result
    tensors = [t for t in operands if isinstance(t, Tensor)]
    if lifted:
        return plain(result)
    if tensors:
        same = [t for t in tensors if t.rank == type_.rank]
        stretched = frozenset.intersection(*(t.stretched for t in same)) if same else frozenset()
        dims = merge_dims(type_.dims, *(t.dims for t in same))
        tensor = Tensor(result, dims, stretched, next((t.shape for t in same if t.shape is not None), None))
    else:
        tensor = plain(result, type_.dims)
    if tensor.stretched:
        return tensor
    missing = tensor.rank - len(known_dims(tensor.value) or tensor.dims)
    if missing > 0:  # leading axes of size 1 that no operand has
        tensor = replace(tensor, value=g.Unsqueeze(tensor.value, list(range(missing))))
    g.facts(tensor.value, type_.dtype, tensor.dims)
    return tensor
