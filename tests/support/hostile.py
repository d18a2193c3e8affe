"""Makers of broken and hostile files, for tests of every frontend.

Code in a hostile file creates its `marker`, so that a test can assert that nothing was executed.
"""

from __future__ import annotations

import os
import pickle
import random
import struct
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

OLD_ONNX = b"\x08\x08:\x05\x12\x03old"
"""The smallest ONNX model, whose graph is named "old". --force replaces it, because it is a complete model."""

PROTO2, PROTO4, STOP, MARK, REDUCE, BUILD = b"\x80\x02", b"\x80\x04", b".", b"(", b"R", b"b"
TUPLE1, EMPTY_TUPLE, EMPTY_DICT, NEWOBJ, STACK_GLOBAL = b"\x85", b")", b"}", b"\x81", b"\x93"


def text(value: str) -> bytes:
    """Return the opcode that pushes a string."""
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def imported(module: str, name: str) -> bytes:
    """Return the opcode that imports `module.name` (protocol 2)."""
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def called(module: str, name: str, argument: bytes) -> bytes:
    """Return the opcodes that call `module.name` with one argument, given as opcodes."""
    return imported(module, name) + argument + TUPLE1 + REDUCE


def touch(marker: Path) -> str:
    """Return the shell command that creates the marker if a file's code is executed."""
    return f"touch {marker}"


def pickles(marker: Path) -> dict[str, tuple[bytes, str]]:
    """Return pickles that execute code when they are loaded, each with a global that a frontend must detect."""
    command = text(touch(marker))
    code = text(f"open({str(marker)!r}, 'w').close()")
    layer = imported("torch.nn.modules.linear", "Linear") + EMPTY_TUPLE + NEWOBJ
    system = called("os", "system", command)
    call = command + TUPLE1 + REDUCE + STOP
    inner = PROTO2 + system + STOP
    return {
        "os.system": (PROTO2 + system + STOP, "os.system"),
        "posix.system": (PROTO2 + called("posix", "system", command) + STOP, "posix.system"),
        "eval": (PROTO2 + called("builtins", "eval", code) + STOP, "builtins.eval"),
        "eval by its Python 2 name": (PROTO2 + called("__builtin__", "eval", code) + STOP, "builtins.eval"),
        "INST": (PROTO2 + MARK + command + b"ios\nsystem\n" + STOP, "os.system"),
        "OBJ": (PROTO2 + MARK + imported("os", "system") + command + b"o" + STOP, "os.system"),
        "STACK_GLOBAL": (PROTO4 + text("os") + text("system") + STACK_GLOBAL + call, "os.system"),
        "STACK_GLOBAL from the memo": (
            PROTO4 + text("os") + b"\x94" + b"0" + text("system") + b"\x94" + b"0" + b"h\x00h\x01" + STACK_GLOBAL
            + call, "os.system"),
        "STACK_GLOBAL with DUP and POP": (
            PROTO4 + text("os") + text("x") + b"20" + b"0" + text("system") + STACK_GLOBAL + call, "os.system"),
        "a name with a dot": (
            PROTO4 + text("torch.nn.modules.module") + text("os.system") + STACK_GLOBAL + call,
            "torch.nn.modules.module.os.system"),
        "a computed name": (
            PROTO4 + text("os") + called("builtins", "str", text("system")) + STACK_GLOBAL + call, "<computed>"),
        "a module's neighbour": (
            PROTO2 + called("torch.nn.modules.utils", "import_module", text("os")) + STOP,
            "torch.nn.modules.utils.import_module"),
        "a hook": (
            PROTO2 + called("torch.nn.modules.module", "register_module_forward_hook", imported("os", "system")) + STOP,
            "torch.nn.modules.module.register_module_forward_hook"),
        "before the object": (PROTO2 + system + b"0" + layer + STOP, "os.system"),
        "in the state of a layer": (
            PROTO2 + layer + EMPTY_DICT + text("weight") + system + b"s" + BUILD + STOP, "os.system"),
        "getattr": (
            PROTO2 + imported("builtins", "getattr") + MARK + imported("os", "path") + text("os") + b"t" + REDUCE
            + call,
            "builtins.getattr"),
        "a pickle in a pickle": (
            PROTO2 + called("pickle", "loads", b"B" + struct.pack("<I", len(inner)) + inner) + STOP, "pickle.loads"),
        "a torch file in a pickle": (
            PROTO2 + called("torch.storage", "_load_from_bytes", b"C\x01x") + STOP, "torch.storage._load_from_bytes"),
        "functools": (
            PROTO2 + called("functools", "partial", imported("os", "system")) + STOP, "functools.partial"),
        "an extension": (PROTO2 + b"\x82\x01" + call, "copyreg.extension 1"),
        "a space in the name": (PROTO2 + called("os", "system x", command) + STOP, "os.system x"),
    }  # fmt: skip


def broken_pickles() -> dict[str, bytes]:
    """Return pickles with truncated, unknown or inconsistent opcodes."""
    return {
        "nothing": b"",
        "no STOP": PROTO2 + EMPTY_DICT,
        "only STOP": PROTO2 + STOP,
        "cut string": PROTO2 + b"X\xff\xff\x00\x00abc",
        "longest string": PROTO4 + b"\x8d" + b"\xff" * 8,
        "unknown opcode": PROTO2 + b"\xff" + STOP,
        "stack underflow": PROTO2 + REDUCE + STOP,
        "no mark": PROTO2 + b"u" + STOP,
        "odd items": PROTO2 + EMPTY_DICT + MARK + text("a") + b"u" + STOP,
        "items of a string": PROTO2 + text("a") + text("b") + b"a" + STOP,
        "memo that is not there": PROTO2 + b"h\x07" + STOP,
        "invalid UTF-8": PROTO2 + b"X\x02\x00\x00\x00\xff\xff" + STOP,
        "half a global": PROTO2 + b"cos\n",
        "huge decimal": b"I" + b"9" * 20_000 + b"\n" + STOP,
    }


def write_torch_zip(path: Path, data: bytes, storages: Sequence[bytes] = ()) -> Path:
    """Write a zip file in the layout of `torch.save`, with `data` as its pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/byteorder", "little")
        for index, storage in enumerate(storages):
            archive.writestr(f"archive/data/{index}", storage)
        archive.writestr("archive/version", "3\n")
    return path


def write_torch_legacy(path: Path, data: bytes, keys: Sequence[str] = (), storages: bytes = b"") -> Path:
    """Write a file of `torch.save` without zip: magic number, protocol, system, object, storage keys, storages."""
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = [0x1950A86A20F9469CFC6C, 1001, system]
    path.write_bytes(b"".join(pickle.dumps(part, 2) for part in head) + data + pickle.dumps([*keys], 2) + storages)
    return path


def write_zip(path: Path, entries: Sequence[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write a zip file with any names, also invalid and duplicate ones."""
    with zipfile.ZipFile(path, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zipfile's warning about duplicate names
        for name, content in entries:
            archive.writestr(name, content)
    return path


def hostile_zip(kind: str, folder: Path, entries: Sequence[tuple[str, bytes]]) -> Path:
    """Write a zip file with `entries` and one defect that must be refused for every kind of model."""
    path = folder / f"{kind}.zip"
    if kind == "overlap":
        _overlap(path, entries)
    elif kind == "bomb":
        write_zip(path, [*entries, ("archive/data/9", bytes(128 << 20))], zipfile.ZIP_DEFLATED)
    elif kind == "link":
        link = zipfile.ZipInfo("archive/link")
        link.external_attr = 0o120777 << 16
        with zipfile.ZipFile(write_zip(path, entries), "a") as archive:
            archive.writestr(link, "/etc/passwd")
    else:
        more = {"parent": ("archive/../../evil", b"x"), "absolute": ("/tmp/evil", b"x"),
                "backslash": ("..\\evil", b"x"), "drive": ("C:/evil", b"x"), "twice": entries[0]}  # fmt: skip
        write_zip(path, [*entries, more[kind]])
    return path


def _overlap(path: Path, entries: Sequence[tuple[str, bytes]]) -> None:
    """Write forty entries that share one block of data (a zip bomb with a harmless ratio for each entry)."""
    block = random.Random(0).randbytes(100_000)
    write_zip(path, [*entries, ("archive/block", block)])
    with zipfile.ZipFile(path, "a") as archive:
        first = archive.getinfo("archive/block")
        for index in range(40):
            copy = zipfile.ZipInfo(f"archive/copy{index}")
            copy.header_offset, copy.CRC = first.header_offset, first.CRC
            copy.file_size, copy.compress_size = first.file_size, first.compress_size
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
        archive._didModify = True  # type: ignore[attr-defined]


def truncations(path: Path, folder: Path, count: int = 20) -> Iterator[Path]:
    """Yield copies of a file truncated at `count` evenly spaced lengths, and one byte before its end."""
    content = path.read_bytes()
    lengths = {len(content) * step // count for step in range(count)} | {len(content) - 1}
    for length in sorted(lengths):
        copy = folder / f"{length}-{path.name}"
        copy.write_bytes(content[:length])
        yield copy


def mutations(path: Path, folder: Path, count: int, seed: int = 0) -> Iterator[Path]:
    """Yield copies of a file with a few bytes changed, half of them in the first or last 512 bytes."""
    source = random.Random(seed)
    content = path.read_bytes()
    for index in range(count):
        changed = bytearray(content)
        for _ in range(source.randint(1, 6)):
            low, high = source.choice([(0, len(content)), (0, min(512, len(content))), (max(0, len(content) - 512),
                                                                                        len(content))])  # fmt: skip
            changed[source.randrange(low, high)] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
        copy = folder / f"mutant{index}-{path.name}"
        copy.write_bytes(changed)
        yield copy


def lfs_pointer(path: Path, size: int = 102_400_000) -> Path:
    """Return a Git-LFS pointer to a file of `size` bytes."""
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize {size}\n")
    return path


def foreign_files() -> dict[str, tuple[bytes, str, str]]:
    """Return contents that hold no model, each with a word of the expected error and of its hint."""
    tar = b"weights.bin".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0") + bytes(1024)
    old_torch = b"sys_info".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0") + bytes(1024)
    return {
        "empty": (b"", "empty", "again"),
        "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 4711\n",
                    "4,711 bytes, oid sha256:4d4d", "git lfs pull"),
        "flatbuffer": (b"\x24\0\0\0PTMF\x1c\0" + bytes(64), "TorchScript in flatbuffer form", "torch.jit.save"),
        "web page": (b"<!DOCTYPE html>\n<html><title>Sign in</title></html>", "web page ('Sign in')", "login"),
        "web page after a blank": (b"\n\n <HTML><body>404</body></HTML>", "web page", "download"),
        "server's JSON": (b'{"error": "Repository not found"}', "message of a server", "download"),
        "server's XML": (b'<?xml version="1.0"?>\n<Error><Code>Denied</Code></Error>', "error message", "download"),
        "OpenVINO": (b'<?xml version="1.0"?>\n<net name="m" version="11"></net>', "XML", "OpenVINO"),
        "index": (b'{"metadata": {}, "weight_map": {"a": "model-1.safetensors"}}', "several files", "folder"),
        "Keras JSON": (b'{"class_name": "Sequential", "config": {}}', "without weights", "model.save"),
        "tfjs": (b'{"modelTopology": {}, "weightsManifest": []}', "TensorFlow.js", "SavedModel"),
        "cut JSON": (b'{"class_name": "Sequ', "JSON that is truncated", "again"),
        "deep JSON": (b"[" * 50_000, "JSON that is truncated or corrupt", "again"),
        "text": ("Ein Modell für alle\nFälle\n".encode(), "plain text", "model"),
        "UTF-16": ("plain words".encode("utf-16"), "plain text", "model"),
        "Python": (b"import torch\n\nmodel = 1\n", "Python source", "--model"),
        "protobuf text": (b"node {\n  name: \"x\"\n  op: \"Placeholder\"\n}\n", "protobuf text", "text_format"),
        "gzip": (b"\x1f\x8b\x08\x00" + bytes(20), "gzip", "unpack"),
        "xz": (b"\xfd7zXZ\x00" + bytes(20), "xz", "unpack"),
        "tar": (tar, "tar archive", "unpack"),
        "torch of 2016": (old_torch, "before 2017", "torch.load"),
        "npy": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}", "NumPy", "model"),
        "ort": (b"\x18\x00\x00\x00ORTM" + bytes(40), "ONNX Runtime", ".onnx"),
        "minidb": (b"\x0e\x00\x00\x00\x46\x03\x00\x00!!META_NET_DEF" + bytes(40), "Caffe2", "predictor.minidb"),
        "GGUF": (b"GGUF\x03\x00\x00\x00" + bytes(40), "GGUF", "safetensors"),
        "noise": (random.Random(1).randbytes(3000), "unknown format; it begins with the bytes", "convert formats"),
        "zeros": (bytes(3000), "unknown format", "convert formats"),
        "zip's first bytes": (b"PK\x03", "first of a zip", "again"),
        "plain pickle": (pickle.dumps({"a": 1}), "torch.save did not write", "convert.convert"),
    }  # fmt: skip


def leaving_link(link: Path, secret: Path) -> Path:
    """Replace a model's file by a link to a secret outside of the model."""
    secret.write_bytes(b"secret")
    link.unlink(missing_ok=True)
    os.symlink(secret, link)
    return link


def unfolding_pickles(levels: int = 30) -> dict[str, bytes]:
    """Return modules and checkpoints of few objects that refer to one another twice.

    A walk without a memo takes exponential time.
    """
    layer = imported("torch.nn.modules.linear", "Linear") + EMPTY_TUPLE + NEWOBJ
    group = imported("torch.nn.modules.container", "Sequential") + EMPTY_TUPLE + NEWOBJ
    twice = b"2"  # DUP
    keep, kept = b"q\x01", b"h\x01"
    tuples = text("a") + (twice + b"\x86") * levels
    lists = text("a") + (keep + b"0](" + kept + kept + b"e") * levels
    dicts = text("a") + (keep + b"0}(" + text("a") + kept + text("b") + kept + b"u") * levels
    ordered = text("a") + (
        keep + b"0" + imported("collections", "OrderedDict") + b")R(" + text("a") + kept + text("b") + kept + b"u"
    ) * levels  # fmt: skip
    mixed = text("a") + (twice + b"\x86" + keep + b"0](" + kept + kept + b"e") * (levels // 2)
    attributes = {"tuples": tuples, "lists": lists, "dicts": dicts, "ordered dicts": ordered, "tuples in lists": mixed}
    both = b"}(" + text("0") + kept + text("1") + kept + b"u"
    parts = (keep + b"0" + group + b"}" + text("_modules") + both + b"s" + BUILD) * levels
    found = {
        f"an attribute of {name}": PROTO2 + layer + b"}" + text("extra") + value + b"s" + BUILD + STOP
        for name, value in attributes.items()
    }
    found["layers of layers"] = PROTO2 + layer + parts + STOP
    found["arguments beside weights"] = (
        PROTO2 + b"}(" + text("state_dict") + EMPTY_DICT + text("pytorch-lightning_version") + text("2.5.0")
        + text("hyper_parameters") + b"}" + text("x") + tuples + b"s" + b"u" + STOP
    )  # fmt: skip
    return found
