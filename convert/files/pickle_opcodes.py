"""Interprets a pickle's opcodes symbolically: records what it imports, calls and builds, without executing anything."""

from __future__ import annotations

import mmap
import pickletools
import re
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from convert import limits
from convert.errors import BadInput

COMPUTED = "<computed>"
"""Stands for a name that the pickle computes during loading, so that its import is unknown."""

STORAGE = "torch storage"
"""The class of the object behind a persistent id of torch; its items are "storage", class, key, location and length."""


@dataclass(eq=False, slots=True)
class Global:
    """A class or function that the pickle names."""

    name: str


@dataclass(eq=False, slots=True)
class PickledObject:
    """An object that the pickle builds; `of` is its class, or the function that returned it.

    `items` are the values of a sequence or the (key, value) pairs of a mapping; `state` is what BUILD sets.
    """

    of: str
    items: list[Any] = field(default_factory=list)
    state: Any = None
    size: int = 1
    depth: int = 0
    """Size of a tuple or frozenset: the number of objects in it, counting repetitions, and the depth of nesting."""


@dataclass(frozen=True)
class Pickle:
    """A pickle read symbolically; `top` is a PickledObject, a Global, or a plain str, number, bytes or None."""

    top: Any
    globals: tuple[str, ...]
    """Every "module.name" that it imports, sorted."""
    called: tuple[str, ...]
    """Functions and classes that it calls with arguments of its choice (REDUCE, OBJ, INST, NEWOBJ_EX), sorted."""
    tensors: tuple[tuple[Any, ...], ...] = ()
    """The arguments of each call that makes a tensor: storage, offset, sizes, strides, …; empty without a storage."""
    storages: tuple[PickledObject, ...] = ()
    """The storages that persistent ids name, in order."""


_AGAIN = "get the file again, or save it again"
_ENDLESS = 1 << 60
"""Upper bound of counts: numbers that double at each of a million levels would themselves fill the memory."""

_TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
_PARAMETERS = _TENSORS[1:]
_MEMORY = re.compile(r"torch\.(?:\w+\.)*\w*(?:Tensor|Storage)", re.ASCII)
"""Classes that PyTorch constructs from sizes, with uninitialized memory; torch.save never writes such calls."""
_COPYING = ("_codecs.encode", "builtins.bytearray")
"""Functions that Python calls for bytes in old protocols, with a text of the same length."""
_CODECS = ("", "latin1", "latin-1", "utf-8", "ascii")
"""Codecs that these functions may use; other codecs compute, some of them for hours."""


def class_name(value: Any) -> str:
    """Return the class name of a value of `Pickle.top`; for a Global, its own name."""
    if isinstance(value, PickledObject):
        return value.of
    return value.name if isinstance(value, Global) else type(value).__name__


def read_pickle(data: bytes | mmap.mmap) -> Pickle:
    """Read one pickle symbolically; from a memory map, the one at its position, which then moves past the pickle.

    Raises `BadInput` if the opcodes are truncated, unknown or inconsistent.
    """
    machine, most = _Machine(), limits.PICKLE_OPCODES
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(cast(Any, data))):
            if count >= most:
                raise BadInput(f"a pickle of more than {most:,} opcodes is no model")
            _execute_opcode(machine, opcode, argument)
        top = machine.stack.pop()
    except (ValueError, LookupError, OverflowError, TypeError, AttributeError) as error:
        reason = re.split("[;\n]", str(error))[0][:200] if isinstance(error, ValueError) else "its opcodes do not fit"
        raise BadInput(f"a pickle is truncated or corrupt: {reason}", hint=_AGAIN) from None
    return Pickle(top, tuple(sorted(machine.globals)), tuple(sorted(machine.called)), tuple(machine.tensors),
                  tuple(machine.storages))  # fmt: skip


@dataclass(slots=True)
class _Machine:
    """The state of the pickle machine: its stack, the stacks below each mark, the memo, and what was recorded."""

    stack: list[Any] = field(default_factory=list)
    below: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    tensors: list[tuple[Any, ...]] = field(default_factory=list)
    storages: list[PickledObject] = field(default_factory=list)
    protocol: int = 0
    hashed: int = 0
    copied: int = 0

    def constant(self, of: str, items: list[Any]) -> PickledObject:
        """Return a new tuple or frozenset."""
        inside = [item for item in items if isinstance(item, PickledObject)]
        depth = 1 + max((item.depth for item in inside), default=0)
        if of == "frozenset":
            self.hash(items)
        size = 1 + sum(item.size for item in inside) + len(items) - len(inside)
        return PickledObject(of, items, size=min(size, _ENDLESS), depth=depth)

    def hash(self, keys: list[Any]) -> None:
        """Record that a loader will hash these keys; a tuple costs as many steps as it contains objects, each time.

        Consider a tuple that holds another tuple twice, which holds a third one twice, and so on: hashing it takes
        years. Python recurses into tuples without checking its stack. Raises `BadInput` if the steps exceed the limits.
        """
        if max((key.depth for key in keys if isinstance(key, PickledObject)), default=0) > limits.PICKLE_KEY_DEPTH:
            most = f"{limits.PICKLE_KEY_DEPTH:,}"
            raise BadInput(f"a pickle with keys of tuples in more than {most} levels is no model", hint=_AGAIN)
        self.hashed += sum(key.size if isinstance(key, PickledObject) else 1 for key in keys)
        if self.hashed > limits.PICKLE_OPCODES:
            most = f"{limits.PICKLE_OPCODES:,}"
            raise BadInput(f"a pickle whose keys hold more than {most} objects is no model", hint=_AGAIN)

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def name(self, module: Any, name: Any) -> Global:
        """Record an import, under the Python 3 name of what Python 2 pickled."""
        if not isinstance(module, str) or not isinstance(name, str):
            full = COMPUTED
        else:
            if self.protocol < 3:
                module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
            full = f"{module}.{name}"
        self.globals.add(full)
        return Global(full)

    def call(self, function: Any, arguments: Any) -> PickledObject:
        name = function.name if isinstance(function, Global) else f"<{class_name(function)}>"
        self.called.add(name)
        self.hash(_hashed_by_call(arguments))
        inner, given = name, _items(arguments)
        while inner == "torch._tensor._rebuild_from_type_v2" and len(given) > 2:  # this function calls another one
            inner, given = class_name(given[0]), _items(given[2])
        if inner in _COPYING:
            self.copy(inner, given)
        else:
            self.make(inner, given)
        return PickledObject(_result_class(function, arguments), items=_plain_items(function, arguments))

    def make(self, name: str, arguments: list[Any]) -> None:
        """Record the tensor that a call of `name` makes, if it makes one."""
        if name.startswith(("torch._utils._rebuild_tensor", "torch._utils._rebuild_qtensor")):
            self.tensors.append(tuple(arguments))
        elif name in _PARAMETERS:
            if not arguments or class_name(arguments[0]) not in _TENSORS:
                self.tensors.append(())
        elif arguments and (_MEMORY.fullmatch(name) or name == "torch._utils._rebuild_nested_tensor"):
            self.tensors.append(())  # PyTorch leaves its memory uninitialized

    def copy(self, name: str, arguments: list[Any]) -> None:
        """Count the bytes that a call makes. Raises `BadInput` for arguments that no program writes."""
        what, *rest = (*arguments, None)
        codec = rest[0] if isinstance(rest[0], str) else ""
        self.copied += len(what) if isinstance(what, str | bytes | bytearray) else 0
        if isinstance(what, int) or codec.lower() not in _CODECS:
            raise BadInput(f"a pickle that calls {name} with {codec[:100] or what!r} is no model", hint=_AGAIN)
        if self.copied > limits.PICKLE_BYTES:
            most = f"{limits.PICKLE_BYTES >> 20:,} MiB"
            raise BadInput(f"a pickle that makes more than {most} with {name} is no model", hint=_AGAIN)


def _execute_opcode(machine: _Machine, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
    """Execute one opcode."""
    name, stack = opcode.name, machine.stack
    match name:
        case "PROTO":
            machine.protocol = argument
        case "MARK":
            machine.below.append(stack)
            machine.stack = []
        case "POP":
            machine.since_mark() if not stack else stack.pop()
        case "POP_MARK":
            machine.since_mark()
        case "DUP":
            stack.append(stack[-1])
        case "GET" | "BINGET" | "LONG_BINGET":
            stack.append(machine.memo[argument])
        case "PUT" | "BINPUT" | "LONG_BINPUT":
            machine.memo[argument] = stack[-1]
        case "MEMOIZE":
            machine.memo[len(machine.memo)] = stack[-1]
        case "FRAME" | "READONLY_BUFFER" | "STOP":
            pass
        case "PERSID" | "BINPERSID":
            stack.append(_persistent_object(argument if name == "PERSID" else stack.pop()))
            if class_name(stack[-1]) == STORAGE:
                machine.storages.append(stack[-1])
        case "GLOBAL" | "STACK_GLOBAL" | "INST" | "OBJ" | "REDUCE" | "NEWOBJ" | "NEWOBJ_EX" | "EXT1" | "EXT2" | "EXT4":
            _import_or_call(machine, name, argument)
        case "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], PickledObject):
                stack[-1].state = state
                if stack[-1].of in _TENSORS and len(_items(state)) == 4:
                    machine.tensors.append(tuple(state.items))  # as PyTorch before 0.2 set them
        case _ if opcode.stack_before:
            _fill_container(machine, name)
        case _:
            stack.append(_EMPTY[name]() if name in _EMPTY else argument)


_EMPTY = {
    "EMPTY_DICT": lambda: PickledObject("dict"), "EMPTY_LIST": lambda: PickledObject("list"),
    "EMPTY_TUPLE": lambda: PickledObject("tuple"), "EMPTY_SET": lambda: PickledObject("set"),
}  # fmt: skip


def _import_or_call(machine: _Machine, name: str, argument: Any) -> None:
    """Push what an opcode imports, or the result of calling an imported name."""
    stack = machine.stack
    if name == "GLOBAL":
        stack.append(machine.name(*argument.split(" ", 1)))
    elif name == "STACK_GLOBAL":
        attribute, module = stack.pop(), stack.pop()
        stack.append(machine.name(module, attribute))
    elif name.startswith("EXT"):  # a number that identifies a class in the registry of the loading process
        stack.append(machine.name("copyreg", f"extension {argument}"))
    elif name == "INST":
        arguments = machine.constant("tuple", machine.since_mark())
        machine.stack.append(machine.call(machine.name(*argument.split(" ", 1)), arguments))
    elif name == "OBJ":
        function, *rest = machine.since_mark()
        machine.stack.append(machine.call(function, PickledObject("tuple", rest)))
    elif name == "NEWOBJ":
        arguments, made = stack.pop(), class_name(stack.pop())
        machine.make(made, _items(arguments))
        stack.append(PickledObject(made))
    else:
        if name == "NEWOBJ_EX":
            stack.pop()
        arguments, function = stack.pop(), stack.pop()
        stack.append(machine.call(function, arguments))


def _fill_container(machine: _Machine, name: str) -> None:
    """Push or extend a container."""
    if name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        count = int(name[-1])
        items = [machine.stack.pop() for _ in range(count)][::-1]
        machine.stack.append(machine.constant("tuple", items))
    elif name in ("TUPLE", "FROZENSET"):
        items = machine.since_mark()
        machine.stack.append(machine.constant(name.lower(), items))
    elif name == "LIST":
        items = machine.since_mark()
        machine.stack.append(PickledObject("list", items))
    elif name == "DICT":
        items = machine.since_mark()
        machine.hash(items[::2])
        machine.stack.append(PickledObject("dict", _pairs(items)))
    elif name == "APPEND":
        value = machine.stack.pop()
        machine.stack[-1].items.append(value)
    elif name == "SETITEM":
        value, key = machine.stack.pop(), machine.stack.pop()
        machine.hash([key])
        machine.stack[-1].items.append((key, value))
    elif name in ("APPENDS", "ADDITEMS"):
        items = machine.since_mark()
        machine.hash(items if name == "ADDITEMS" else [])
        machine.stack[-1].items.extend(items)
    elif name == "SETITEMS":
        items = machine.since_mark()
        machine.hash(items[::2])
        machine.stack[-1].items.extend(_pairs(items))
    else:
        raise ValueError(f"opcode {name} is not known here")


def _items(value: Any) -> list[Any]:
    return value.items if isinstance(value, PickledObject) else []


def _hashed_by_call(arguments: Any) -> list[Any]:
    """Return what a call may hash: its arguments, and the items of lists in them.

    Examples are `set([…])` and `OrderedDict([(key, …)])`.
    """
    given = _items(arguments)
    lists = [item for item in given if isinstance(item, PickledObject) and item.of == "list"]
    pairs = [item for each in lists for item in each.items if isinstance(item, PickledObject) and item.of == "list"]
    keys = [item.items[0] for item in pairs if item.items]
    return [item for item in (*given, *keys, *(i for each in lists for i in each.items)) if _is_large(item)]


def _is_large(item: Any) -> bool:
    return isinstance(item, PickledObject) and item.size > 1


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    if len(items) % 2:
        raise ValueError("a key of a dict has no value")
    return list(zip(items[::2], items[1::2], strict=True))


def _persistent_object(key: Any) -> Any:
    """Return the object that a persistent id of torch names: a storage or, in legacy files, a class with its source
    code.
    """
    if isinstance(key, PickledObject) and len(key.items) > 1 and key.items[0] == "module":
        return key.items[1]
    return PickledObject(STORAGE, items=key.items if isinstance(key, PickledObject) else [])


def _result_class(function: Any, arguments: Any) -> str:
    """Return the class of a call's result if it is known, else the name of the function."""
    name = class_name(function)
    items = _items(arguments)
    if name.startswith("torch._utils._rebuild_parameter"):
        return "torch.nn.parameter.Parameter"
    if name.startswith("torch._utils._rebuild_"):
        return "torch.Tensor"
    if name == "torch._tensor._rebuild_from_type_v2" and len(items) > 1:
        return class_name(items[1])
    if name in ("copyreg._reconstructor", "copyreg.__newobj__") and items:
        return class_name(items[0])
    return name


def _plain_items(function: Any, arguments: Any) -> list[Any]:
    """Return the pairs of `OrderedDict([(key, value), …])`, or the items of a typed TorchScript value.

    Python 2 pickled an OrderedDict in this form.
    """
    if class_name(function).startswith(_TYPED):
        return _items(arguments)
    if (
        class_name(function) != "collections.OrderedDict"
        or not isinstance(arguments, PickledObject)
        or not arguments.items
    ):
        return []
    pairs = arguments.items[0]
    found = (
        [pair.items for pair in pairs.items if isinstance(pair, PickledObject)]
        if isinstance(pairs, PickledObject)
        else []
    )
    return [(pair[0], pair[1]) for pair in found if len(pair) == 2]


def refuse_unfolding(top: Any) -> None:
    """Raise `BadInput` for containers or layers that hold each other so often that walking them never ends.

    PyTorch walks the attributes of a module, and other code walks arguments and keys, without remembering visited
    objects: thirty nested tuples that each hold the next one twice have a billion leaves.
    """
    objects = _objects_below(top)
    states = [item.state for item in objects]
    containers = _leaves_met(objects, _contained)
    attributes = sum(containers.get(id(value), 1) for value in (top, *states))
    layers = max(_leaves_met(objects, _parts).values(), default=0)
    if max(attributes, layers) > limits.PICKLE_OPCODES:
        most = f"{limits.PICKLE_OPCODES:,}"
        raise BadInput(
            f"a pickle whose containers or layers hold one another more than {most} times is no model", hint=_AGAIN
        )


_TYPED = "torch.jit._pickle."
"""Prefix of the functions by which TorchScript creates a typed list or dict."""
_CONTAINERS = ("tuple", "list", "dict", "set", "frozenset", "collections.OrderedDict", "collections.defaultdict")


def _inside(item: PickledObject) -> list[PickledObject]:
    """Return the objects that an object holds: items, keys and values."""
    flat = [part for entry in item.items for part in (entry if isinstance(entry, tuple) else (entry,))]
    return [part for part in flat if isinstance(part, PickledObject)]


def _contained(item: PickledObject) -> list[PickledObject]:
    return _inside(item) if item.of in _CONTAINERS or item.of.startswith(_TYPED) else []


def _parts(item: PickledObject) -> list[PickledObject]:
    """Return the layers that a layer holds."""
    entries = [entry for entry in _items(item.state) if isinstance(entry, tuple)]
    tables = [value for key, value in entries if key == "_modules" and isinstance(value, PickledObject)]
    return [part for table in tables for part in _inside(table)]


def _objects_below(top: Any) -> list[PickledObject]:
    """Return every object reachable from `top`, each once."""
    found: dict[int, PickledObject] = {}
    pending = [top]
    while pending:
        item = pending.pop()
        if isinstance(item, PickledObject) and id(item) not in found:
            found[id(item)] = item
            pending += [*_inside(item), item.state]
    return list(found.values())


def _leaves_met(
    objects: Sequence[PickledObject], inside: Callable[[PickledObject], list[PickledObject]]
) -> dict[int, int]:
    """Return, for each object, how many objects a walk from it visits; a cycle counts once."""
    counts: dict[int, int] = {}
    for start in objects:
        pending = [(start, False)]
        while pending:
            item, is_done = pending.pop()
            if is_done:
                parts = inside(item)
                count = 1 + sum(counts[id(part)] for part in parts) + max(0, len(item.items) - len(parts))
                counts[id(item)] = min(count, _ENDLESS)
            elif id(item) not in counts:
                counts[id(item)] = 1  # until the number for its parts is known
                pending.append((item, True))
                pending += [(part, False) for part in inside(item)]
    return counts
