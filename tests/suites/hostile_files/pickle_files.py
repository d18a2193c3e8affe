"""Pickles of torch.save that execute code, take hours to read, or refer to nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name
from tests.support.hostile import (
    BUILD,
    EMPTY_DICT,
    EMPTY_TUPLE,
    MARK,
    NEWOBJ,
    PROTO2,
    PROTO4,
    REDUCE,
    STOP,
    TUPLE1,
    broken_pickles,
    called,
    imported,
    pickles,
    text,
    touch,
    unfolding_pickles,
    write_torch_legacy,
    write_torch_zip,
)

GOOD = FIXTURES / "mnist_cnn.pt"
LAYER = imported("torch.nn.modules.linear", "Linear") + EMPTY_TUPLE + NEWOBJ


def number(value: int) -> bytes:
    """Return the opcode that pushes an integer."""
    raw = value.to_bytes(10, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def storage(
    kind: str = "FloatStorage", key: str = "0", length: int = 4, module: str = "torch", more: bytes = b""
) -> bytes:
    """Return a persistent id that names a storage; `more` follows it in files without zip."""
    parts = text("storage") + imported(module, kind) + text(key) + text("cpu") + number(length)
    return MARK + parts + more + b"t" + b"Q"


def tensor(held: bytes, offset: int = 0, sizes: tuple[int, ...] = (2, 2), strides: tuple[int, ...] = (2, 1)) -> bytes:
    """A tensor over a storage."""
    dims = [MARK + b"".join(map(number, d)) + b"t" for d in (sizes, strides)]
    made = held + number(offset) + dims[0] + dims[1] + b"\x89" + imported("collections", "OrderedDict") + b")R"
    return imported("torch._utils", "_rebuild_tensor_v2") + MARK + made + b"t" + REDUCE


def weights(value: bytes, name: str = "weight") -> bytes:
    """Return a dict of one entry."""
    return PROTO2 + EMPTY_DICT + text(name) + value + b"s" + STOP


def _running(canary: Canary) -> dict[str, bytes]:
    command = text(touch(canary.marker))
    system = called("os", "system", command)
    state = EMPTY_DICT + text("_forward_hooks") + EMPTY_DICT + number(0) + imported("os", "system") + b"s" + b"s"
    return {
        "hooks in the state of a layer": PROTO2 + LAYER + state + BUILD + STOP,
        "__setstate__ among the state": PROTO2 + LAYER + EMPTY_DICT + text("__setstate__") + system + b"s" + BUILD
        + STOP,
        "a persistent id that executes": PROTO2 + system + b"Q" + STOP,
        "a storage of another class": weights(tensor(storage("system", module="os"))),
        "a reconstructor": PROTO2 + imported("copyreg", "_reconstructor") + MARK + imported("os", "system")
        + imported("builtins", "object") + b"N" + b"t" + REDUCE + command + TUPLE1 + REDUCE + STOP,
        "operator.attrgetter": PROTO2 + called("operator", "attrgetter", text("system")) + imported("os", "path")
        + TUPLE1 + REDUCE + command + TUPLE1 + REDUCE + STOP,
        "numpy's loader": PROTO2 + called("numpy", "load", text("/etc/passwd")) + STOP,
        "torch.load": PROTO2 + called("torch", "load", text("/etc/passwd")) + STOP,
        "torch.hub": PROTO2 + called("torch.hub", "load", text("x/y")) + STOP,
        "a URL": PROTO2 + called("urllib.request", "urlopen", text(f"http://127.0.0.1:{canary.port}/")) + STOP,
        "a socket": PROTO2 + called("socket", "create_connection", MARK + text("127.0.0.1") + number(canary.port)
        + b"t") + STOP,
        "a file that is opened": PROTO2 + imported("builtins", "open") + MARK + text(str(canary.marker)) + text("w")
        + b"t" + REDUCE + STOP,
        "pathlib": PROTO2 + imported("pathlib", "Path.touch") + called("pathlib", "Path", text(str(canary.marker)))
        + TUPLE1 + REDUCE + STOP,
        "a rebuilt function": weights(imported("torch._utils", "_rebuild_from_type_v2") + MARK
        + imported("os", "system")
        + imported("builtins", "object") + command + EMPTY_DICT + b"t" + REDUCE),
        "subclasses": PROTO4 + text("builtins") + text("object.__subclasses__") + b"\x93" + EMPTY_TUPLE + REDUCE + STOP,
    }  # fmt: skip


def _costly() -> dict[str, bytes]:
    pair = b"\x86"  # TUPLE2
    doubled = b"N" + b"".join(b"2" + pair for _ in range(60))
    memo = b"".join(b"r" + struct.pack("<I", i) + b"0" + b"j" + struct.pack("<I", i) for i in (2**31, 2**32 - 1))
    laughs = EMPTY_DICT + b"".join(b"q" + bytes([i]) + b"0" + b"]" + (b"h" + bytes([i]) + b"a") * 10 for i in range(30))
    return {
        "tuples of tuples as a key": PROTO2 + EMPTY_DICT + doubled + number(1) + b"s" + STOP,
        "tuples of tuples as a name": PROTO2 + EMPTY_DICT + MARK + doubled + tensor(storage()) + b"u" + STOP,
        "tuples of tuples in a storage": weights(MARK + text("storage") + doubled + text("0") + b"tQ"),
        "tuples of tuples as arguments": weights(imported("torch._utils", "_rebuild_tensor_v2") + doubled + REDUCE),
        "lists of lists": PROTO2 + laughs + STOP,
        "100,000 tuples in one another": PROTO2 + EMPTY_DICT + b"N" + TUPLE1 * 100_000 + number(1) + b"s" + STOP,
        "100,000 lists in one another": PROTO2 + b"]" * 100_000 + b"a" * 99_999 + STOP,
        "100,000 marks": PROTO2 + MARK * 100_000 + b"t" * 100_000 + STOP,
        "a dict that holds itself": PROTO2 + EMPTY_DICT + b"q\x00" + text("a") + b"h\x00" + b"s" + STOP,
        "a list that holds itself": PROTO2 + b"]q\x00h\x00a" + STOP,
        "a layer that holds itself": PROTO2 + LAYER + b"q\x00" + EMPTY_DICT + text("_modules") + EMPTY_DICT + text("a")
        + b"h\x00" + b"s" + b"s" + BUILD + STOP,
        "a memo of 2^32": PROTO2 + EMPTY_DICT + memo + STOP,
        "a string of 2^63 bytes": PROTO4 + b"\x8d" + struct.pack("<Q", 2**63 - 1) + b"x" + STOP,
        "bytes of 2^62": PROTO4 + b"\x8e" + struct.pack("<Q", 2**62) + b"x" + STOP,
        "a bytearray of 2^40": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x" + STOP,
        "a frame of 2^60": PROTO4 + b"\x95" + struct.pack("<Q", 2**60) + EMPTY_DICT + STOP,
        "an integer of 2^31 bytes": PROTO2 + b"\x8b" + struct.pack("<i", 2**31 - 1) + b"\1" + STOP,
        "an integer of -1 bytes": PROTO2 + b"\x8b" + struct.pack("<i", -1) + b"\1" + STOP,
        "out of band buffers": b"\x80\x05" + b"\x97" + STOP,
        "protocol 255": b"\x80\xff" + EMPTY_DICT + STOP,
    }  # fmt: skip


def _out_of_bounds() -> dict[str, bytes]:
    return {
        "a storage without bytes": weights(tensor(storage(key="9"))),
        "a storage of 2^60": weights(tensor(storage(length=2**60), sizes=(2**60,), strides=(1,))),
        "a storage of -1": weights(tensor(storage(length=-1))),
        "sizes beyond the storage": weights(tensor(storage(), sizes=(100, 100), strides=(100, 1))),
        "sizes below zero": weights(tensor(storage(), sizes=(-2, -2))),
        "strides below zero": weights(tensor(storage(), strides=(-2, -1))),
        "strides of 2^62": weights(tensor(storage(), strides=(2**62, 2**62))),
        "an offset of 2^62": weights(tensor(storage(), offset=2**62)),
        "an offset of -4": weights(tensor(storage(), offset=-4)),
        "a stride of 0": weights(tensor(storage(), sizes=(2**20, 2**20), strides=(0, 0))),
        "sizes whose product overflows": weights(tensor(storage(), sizes=(2**32, 2**32), strides=(0, 0))),
        "a storage in another file": weights(tensor(storage(key="../../../etc/passwd"))),
        "a storage on another device": weights(tensor(storage()).replace(b"cpu", b"hpu")),
        "a storage of no type": weights(tensor(storage("NoStorage"))),
        "a name in two directions": weights(tensor(storage()), "\u202eweight\u2066\x9b31m\n"),
    }


def made_of_nothing() -> dict[str, bytes]:
    """Return checkpoints with tensors of uninitialized memory, and of sizes that their storages do not have."""

    def made(function: tuple[str, str], *arguments: bytes, opcode: bytes = REDUCE) -> bytes:
        return imported(*function) + MARK + b"".join(arguments) + b"t" + opcode

    thousand, ordered = number(1000), imported("collections", "OrderedDict") + b")R"
    pair = MARK + number(1000) + b"t", MARK + number(1) + b"t"
    parameter, of_type = ("torch.nn.parameter", "Parameter"), ("torch._tensor", "_rebuild_from_type_v2")
    beyond = MARK + storage() + number(0) + pair[0] + pair[1] + b"\x89" + ordered + b"t"
    typed = (storage("UntypedStorage", length=16, module="torch.storage") + number(0) + MARK + number(16) + b"t"
             + pair[1] + b"\x89" + ordered + imported("torch", "float64") + EMPTY_DICT)  # fmt: skip
    indirect = imported("torch", "FloatTensor") + imported("torch", "Tensor") + pair[0] + EMPTY_DICT
    nested = tensor(storage()) + tensor(storage("LongStorage"), sizes=(1, 1)) * 2 + tensor(storage("LongStorage"))
    return {
        "a tensor of a size": made(("torch", "Tensor"), thousand),
        "a tensor of a size, made anew": made(("torch", "Tensor"), thousand, opcode=NEWOBJ),
        "a tensor of an old class": made(("torch", "FloatTensor"), thousand),
        "a parameter of a tensor of a size": made(parameter, made(("torch", "Tensor"), thousand), opcode=NEWOBJ),
        "a parameter of a number": made(parameter, thousand, opcode=NEWOBJ),
        "a storage of a size": made(("torch.storage", "UntypedStorage"), thousand),
        "a tensor that is set": made(("torch", "Tensor"), opcode=NEWOBJ) + beyond.replace(b"\x89" + ordered, b"")
        + BUILD,
        "a tensor of a type, beyond its storage": made(
            of_type, imported("torch._utils", "_rebuild_tensor_v2"), imported("torch", "Tensor"), beyond, EMPTY_DICT),
        "a tensor of a type, of a size": made(of_type, indirect),
        "a tensor of a type within types": made(
            of_type, imported(*of_type), imported("torch", "Tensor"), MARK + indirect + b"t", EMPTY_DICT),
        "a wider dtype than its storage": made(("torch._utils", "_rebuild_tensor_v3"), typed),
        "a nested tensor": made(("torch._utils", "_rebuild_nested_tensor"), nested),
    }  # fmt: skip


def sparse_tensors() -> dict[str, tuple[bytes, list[bytes]]]:
    """Return checkpoints of a sparse tensor whose indices point elsewhere, with their storages."""

    def tuple_of(*parts: bytes) -> bytes:
        return MARK + b"".join(parts) + b"t"

    def sparse(layout: str, index: int, size: int) -> tuple[bytes, list[bytes]]:
        values = tensor(storage(), sizes=(2,), strides=(1,))
        places = storage("LongStorage", key="1", length=2)
        flat = tensor(places, sizes=(2,), strides=(1,))
        kind = imported("torch.serialization", "_get_layout") + tuple_of(text(f"torch.{layout}")) + REDUCE
        coordinates = tuple_of(tensor(places, sizes=(1, 2)), values, tuple_of(number(size)), b"\x89")
        rows = tuple_of(flat, flat, values, tuple_of(number(1), number(size)))
        rebuilt = tuple_of(kind, coordinates if layout == "sparse_coo" else rows)
        made = imported("torch._utils", "_rebuild_sparse_tensor") + rebuilt + REDUCE
        return weights(made), [bytes(16), index.to_bytes(8, "little", signed=True) * 2]

    return {
        "sparse: an index beyond the size": sparse("sparse_coo", 10**9, 3),
        "sparse: an index below zero": sparse("sparse_coo", -5, 3),
        "sparse: rows beyond the values": sparse("sparse_csr", 10**9, 3),
        "sparse: a size of 2^50": sparse("sparse_coo", 2, 2**50),
    }


def checkpoint(**parts: bytes) -> bytes:
    """Return a checkpoint as Lightning writes it, with additional or replaced entries."""
    known = {
        "state_dict": EMPTY_DICT + text("weight") + tensor(storage()) + b"s",
        "epoch": number(3),
        "pytorch-lightning_version": text("2.5.0"),
    } | parts
    return PROTO2 + EMPTY_DICT + b"".join(text(key) + value + b"s" for key, value in known.items()) + STOP


def _shared(count: int, inner: bytes, memo: int) -> bytes:
    """Return a dict that refers to one object many times."""
    place = struct.pack("<I", memo)
    pairs = b"".join(text(f"k{i}") + b"j" + place for i in range(count))
    return EMPTY_DICT + MARK + text("first") + inner + b"r" + place + pairs + b"u"


def checkpoints() -> dict[str, bytes]:
    """Return checkpoints whose data besides the weights costs hours or memory, or whose weights have unusual
    attributes.
    """
    encoded = imported("_codecs", "encode") + MARK
    attributes = EMPTY_DICT + text("items") + number(3) + b"s" + text("values") + number(3) + b"s"
    weight = text("weight") + tensor(storage()) + b"s"
    leaf = EMPTY_DICT + text("a") + number(1) + b"s"
    many = _shared(1000, _shared(1000, _shared(1000, leaf, 1), 2), 3)
    long = b"]" + MARK + text("x" * 1_000_000) + b"r" + struct.pack("<I", 9)
    copies = (encoded + b"j" + struct.pack("<I", 9) + text("latin1") + b"t" + REDUCE) * 1000
    return {
        "a bytearray of 2^33": checkpoint(hyper_parameters=called("builtins", "bytearray", number(2**33))),
        "a codec that takes hours": checkpoint(
            hyper_parameters=encoded + text("".join(map(chr, range(256, 50_000))) * 4) + text("punycode") + b"tR"),
        "a codec of another module": checkpoint(hyper_parameters=encoded + text("x") + text("../x") + b"tR"),
        "a thousand copies of a text": checkpoint(hyper_parameters=long + copies + b"e"),
        "weights with an attribute called items": checkpoint(
            state_dict=imported("collections", "OrderedDict") + b")R" + weight + attributes + BUILD),
        "dicts that hold one dict a thousand times": checkpoint(more=many),
        "weights at 3,000 places": checkpoint(**{f"\x1b[31m<i>{i}": EMPTY_DICT + weight for i in range(3000)}),
        "a callback of the library": checkpoint(
            callbacks=called("subprocess", "Popen", text("id"))),
        "a callback that is made": checkpoint(
            callbacks=imported("pytorch_lightning.callbacks", "Timer") + EMPTY_TUPLE + NEWOBJ + leaf + BUILD),
    }  # fmt: skip


def before_zip() -> dict[str, tuple[bytes, tuple[str, ...], bytes]]:
    """Return the parts of a file without zip that holds 4 numbers: pickle, list of storages, and storages."""
    four = struct.pack("<q4f", 4, 1, 2, 3, 4)
    whole = storage(more=b"N")
    part = MARK + text("part") + number(2) + number(1000) + b"t"
    return {
        "a storage that is not listed": (weights(tensor(whole)), (), four),
        "a long storage that is not listed": (
            weights(tensor(storage(length=1000, more=b"N"), sizes=(1000,), strides=(1,))), (), b""),
        "a tensor beyond its storage": (weights(tensor(whole, sizes=(1000,), strides=(1,))), ("0",), four),
        "a tensor that begins beyond its storage": (weights(tensor(whole, offset=1000)), ("0",), four),
        "a storage that is cut off": (weights(tensor(whole)), ("0",), four[:-4]),
        "a storage of fewer numbers": (weights(tensor(whole)), ("0",), struct.pack("<q1f", 1, 1)),
        "a storage of more numbers": (weights(tensor(whole)), ("0",), struct.pack("<q4f", 1 << 60, 1, 2, 3, 4)),
        "a storage of -4 numbers": (weights(tensor(whole)), ("0",), struct.pack("<q4f", -4, 1, 2, 3, 4)),
        "a storage of two classes": (
            weights(tensor(whole))[:-1] + text("more") + tensor(
                storage("CharStorage", length=16, more=b"N"), sizes=(16,), strides=(1,)) + b"s" + STOP, ("0",), four),
        "a part beyond its storage": (
            weights(tensor(storage(more=part), sizes=(1000,), strides=(1,))), ("0",), four),
        "a part of no numbers": (weights(tensor(storage(more=text("part")))), ("0",), four),
        "a key that is no name": (weights(tensor(whole)), (5,), four),  # type: ignore[dict-item]
        "a storage listed twice": (weights(tensor(whole)), ("0", "0"), four + four),
    }  # fmt: skip


def _repeating(folder: Path) -> Iterator[Case]:
    """Return layers whose weight repeats one number by a stride of 0."""
    import torch

    for size in (1 << 13, 1 << 15):
        with torch.device("meta"):
            layer = torch.nn.Linear(size, size, bias=False)
        layer.weight = torch.nn.Parameter(torch.ones(1).expand(size, size))
        path = folder / f"repeated_{size}.pt"
        torch.save(layer.eval(), path)
        yield Case(f"a weight of one number, {size} times {size}", path, ("--input", f"float32[1,{size}]"), GOOD)


def pickle_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each pickle as a zip archive, and those that execute code also as a file of the old format."""
    known = {name: data for name, (data, _) in pickles(canary.marker).items()}
    running = known | _running(canary)
    unmade = {name: weights(data) for name, data in made_of_nothing().items()}
    costly = _costly() | unfolding_pickles()
    for name, data in (running | broken_pickles() | costly | _out_of_bounds() | unmade | checkpoints()).items():
        path = write_torch_zip(folder / f"{file_name(name)}.pt", data, [bytes(16)])
        yield Case(name, path, good=GOOD)
    for name, (data, storages) in sparse_tensors().items():
        path = write_torch_zip(folder / f"{file_name(name)}.pt", data, storages)
        yield Case(name, path, ("--model", f"{FIXTURES / 'mnist_model.py'}:build"), good=GOOD)
    for name, data in running.items():
        path = write_torch_legacy(folder / f"{file_name(name)}.pth", data)
        yield Case(f"{name}, before zip", path, good=GOOD)
    for name, (data, keys, content) in before_zip().items():
        path = write_torch_legacy(folder / f"old_{file_name(name)}.pth", data, keys, content)
        yield Case(f"{name}, before zip", path, good=GOOD)
    yield from _repeating(folder)
