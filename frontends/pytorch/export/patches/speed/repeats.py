"""Writes the repeated blocks of a network from the first captured ones, without running them.

A stack of equal blocks (`likeness.py`) gives the same operators with other weights if it is called in the same way. Two
blocks are captured and compared completely, and the last one as well. Blocks that differ, or that have side effects,
are captured as usual. A block in the middle of the stack that differs only by a global variable goes unnoticed here;
verification finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from ....torch_internals import DisableTorchFunction, last_node, module_stack_tracer, pytree
from .block_trace import BlockTrace, are_same, is_read_outside, nodes_of, trace_of, write_again
from .likeness import Incomparable, block_attributes, differing_attributes, tensor_likeness, value_likeness

MIN_BLOCKS = 4
"""Minimum number of blocks in a stack: the first two and the last one are captured in any case."""
_STACKS = (nn.ModuleList, nn.Sequential)


class RepeatsDiffer(Exception):
    """Raised if blocks that were assumed to repeat differ: the capture must run again without this patch."""


class Traced(Exception):
    """Raised at the end of a capture of which only the decisions are wanted."""


@dataclass
class Stack:
    """Blocks that are equal except for the integers `numbers`; `reads` are the numbers that were read.

    traces: those of the captured blocks; once the stack is `proven`, the others are written from the last one. common:
    the inputs, by position, that all blocks share, such as a mask. result: what the last captured block returned.
    """

    blocks: Sequence[nn.Module]
    numbers: set[tuple[str, str]]
    reads: list[str] = field(default_factory=list)
    called: Any = None
    traces: list[BlockTrace] = field(default_factory=list)
    common: dict[int, fx.Node] = field(default_factory=dict)
    result: Any = None
    proven: bool = False
    given_up: bool = False


@contextmanager
def repeated_blocks(module: nn.Module, only_decisions: bool = False) -> Iterator[None]:
    """Capture blocks of a stack once, and replay them for equal ones.

    Raises `RepeatsDiffer` from the capture if that was wrong. With `only_decisions`, the blocks between the first and
    the last return what the first returned, because they decide as it does; then the capture ends with `Traced`.
    """
    stacks = _stacks_of(module)
    if not stacks and not only_decisions:
        yield
        return
    owners = {id(block): stack for stack in stacks for block in stack.blocks}
    tracer = module_stack_tracer()
    before, trace_before, busy = tracer.call_module, tracer.trace, [False]

    def call_module(self: Any, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        stack = owners.get(id(m))
        if stack is None or stack.given_up or busy[0] or self.enable_attr_proxy:
            return before(self, m, forward, args, kwargs)
        busy[0] = True
        try:
            call = _call_once if only_decisions else _call_block
            return call(self, stack, m, args, kwargs, lambda: before(self, m, forward, args, kwargs))
        finally:
            busy[0] = False

    def trace(self: Any, *args: Any, **kwargs: Any) -> fx.Graph:
        graph: fx.Graph = trace_before(self, *args, **kwargs)
        if only_decisions:
            raise Traced
        for stack in stacks:
            if stack.proven and any(map(is_read_outside, stack.traces)):
                raise RepeatsDiffer
        return graph

    tracer.call_module, tracer.trace = call_module, trace
    try:
        with _watch_reads(stacks):
            yield
    finally:
        tracer.call_module, tracer.trace = before, trace_before


def _stacks_of(module: nn.Module) -> list[Stack]:
    """Return the outermost stacks of a module: consecutive blocks of one class in one container."""
    found: list[Stack] = []
    seen: set[int] = set()
    for container in module.modules():
        if not isinstance(container, _STACKS) or id(container) in seen:
            continue
        by_class: dict[type, list[nn.Module]] = {}
        for block in container:
            by_class.setdefault(type(block), []).append(block)
        for blocks in by_class.values():
            if len(blocks) < MIN_BLOCKS or len({id(b) for b in blocks}) < len(blocks) or not any(blocks[0].children()):
                continue
            try:
                numbers = differing_attributes(blocks)
            except Incomparable:
                continue
            if any(hasattr(type(blocks[0].get_submodule(path)), name) for path, name in numbers):
                continue
            found.append(Stack(blocks, numbers))
            seen |= {id(inner) for block in blocks for inner in block.modules()}
    return found


def _call_block(tracer: Any, stack: Stack, block: nn.Module, args: Any, kwargs: Any, capture: Callable[[], Any]) -> Any:
    """Return the result of a block: replayed from the pattern if it is equal, else captured and compared."""
    before, tensors = last_node(tracer.graph), _tensors_of(block, args, kwargs)
    try:
        called, inputs, weights = _describe_call(tracer, stack, block, args, kwargs)
    except Incomparable:
        stack.given_up = not stack.proven
        return capture()
    alike = stack.proven and called == stack.called and all(inputs[n] is node for n, node in stack.common.items())
    if alike and block is not stack.blocks[-1]:
        return write_again(tracer, stack.traces[-1], tracer.path_of_module(block), inputs, weights)
    stack.reads.clear()
    result = capture()
    try:
        found = trace_of(tracer, block, before, inputs, weights, result)
        # A call may also change attributes of the block, or the containers that it gets.
        changed = called[1] != _attributes(stack, block) or tensors != _tensors_of(block, args, kwargs)
        pure = not stack.reads and not changed
    except Incomparable:
        pure = False
    if alike and not (pure and are_same(stack.traces[-1], found)):
        raise RepeatsDiffer
    if not pure:
        stack.given_up = not stack.proven
    elif stack.proven:
        stack.traces.append(found)
    else:
        stack.proven = called == stack.called and are_same(stack.traces[-1], found)
        if stack.proven:
            earlier = stack.traces[-1].inputs
            stack.common = {n: a for n, (a, b) in enumerate(zip(earlier, inputs, strict=True)) if a is b}
        stack.called = called
        stack.traces.append(found)
    return result


def _call_once(tracer: Any, stack: Stack, block: nn.Module, args: Any, kwargs: Any, capture: Callable[[], Any]) -> Any:
    """Return the result of a block: that of the one before if both are called in the same way without side effects.

    The last block runs in any case.
    """
    before, tensors = last_node(tracer.graph), _tensors_of(block, args, kwargs)
    try:
        called, inputs, weights = _describe_call(tracer, stack, block, args, kwargs)
    except Incomparable:
        stack.given_up = True
        return capture()
    if stack.proven and called == stack.called and block is not stack.blocks[-1]:
        return stack.result
    stack.reads.clear()
    result = capture()
    try:
        trace_of(tracer, block, before, inputs, weights, result)
        changed = called[1] != _attributes(stack, block) or tensors != _tensors_of(block, args, kwargs)
        stack.proven = not stack.reads and not changed
    except Incomparable:
        stack.proven = False
    stack.given_up = not stack.proven
    stack.called, stack.result = called, result
    return result


def _tensors_of(block: nn.Module, args: Any, kwargs: Any) -> list[int]:
    """Return the ids of the tensors that a block has and is called with."""
    return [id(x) for x in (*pytree.tree_leaves((args, kwargs)), *block.parameters(), *block.buffers())]


def _attributes(stack: Stack, block: nn.Module) -> dict[tuple[str, str], Any]:
    with DisableTorchFunction():
        return {key: value for key, value in block_attributes(block).items() if key not in stack.numbers}


def _describe_call(
    tracer: Any, stack: Stack, block: nn.Module, args: Any, kwargs: Any
) -> tuple[Any, list[fx.Node], list[fx.Node]]:
    """Describe what a call depends on except the tensors' numbers; also return the nodes of its inputs and weights."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    inputs = nodes_of(tracer, [x for x in leaves if isinstance(x, Tensor)])
    weights = nodes_of(tracer, [*block.parameters(), *block.buffers()])
    nodes = [*weights, *inputs]
    same_ones = [nodes.index(n) for n in inputs]  # a tensor that is passed twice, or is a weight as well
    return (_call_likeness(leaves, structure), _attributes(stack, block), same_ones), inputs, weights


def _call_likeness(leaves: Sequence[Any], structure: pytree.TreeSpec) -> Any:
    """Describe the arguments of a block's call: their structure, tensors without values, sizes as expressions."""
    found: list[Any] = [structure]
    with DisableTorchFunction():
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                found.append(tensor_likeness(leaf))
            else:
                found.append(str(leaf.node.expr) if isinstance(leaf, torch.SymInt) else value_likeness(leaf))
    return found


@contextmanager
def _watch_reads(stacks: Sequence[Stack]) -> Iterator[None]:
    """Record which of the differing numbers of a stack's blocks are read."""
    watched: dict[tuple[type, str], list[Stack]] = {}
    for stack in stacks:
        for path, name in stack.numbers:
            watched.setdefault((type(stack.blocks[0].get_submodule(path)), name), []).append(stack)
    for (kind, name), readers in watched.items():
        setattr(kind, name, _watching(name, readers))
    try:
        yield
    finally:
        for kind, name in watched:
            delattr(kind, name)


def _watching(name: str, stacks: Sequence[Stack]) -> property:
    """Return a property that reports reads of an attribute to every stack that has it."""

    def read(self: Any) -> Any:
        for stack in stacks:
            stack.reads.append(name)
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None

    def write(self: Any, value: Any) -> None:
        read(self)
        vars(self)[name] = value

    return property(read, write)
