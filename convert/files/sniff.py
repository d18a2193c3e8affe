"""Identifies the kind of a model file or folder by its content; nothing is executed, unpickled or imported."""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path
from typing import Any

from convert import limits, plugin
from convert.errors import BadInput, UnsafeInput
from convert.files import foreign, pickle_opcodes, pickle_scan, protobuf_wire
from convert.files.archive_names import check_names
from convert.files.archives import is_zip, member, open_archive, read_member, record_root
from convert.files.counted_json import parse_json
from convert.files.folders import folder_kind
from convert.files.holes import check_holes
from convert.files.missing import missing_path_error

KINDS: dict[str, str] = {
    "onnx": "ONNX model (.onnx)",
    "torch-module": "PyTorch module saved whole with torch.save (.pt, .pth), also within a checkpoint",
    "torch-state-dict": "PyTorch weights saved with torch.save (.pt, .pth, .bin, .ckpt), also within a checkpoint",
    "torchscript": "TorchScript archive, traced or scripted (.pt)",
    "torch-export": "PyTorch exported program (.pt2)",
    "safetensors": "weights without a model (.safetensors)",
    "torch-code": "folder of PyTorch code: model.py, model.safetensors",
    "hf-folder": "folder of a Hugging Face model: config.json and PyTorch weights",
    "diffusers-folder": "folder of diffusers: a pipeline (model_index.json), or one of its models",
    "savedmodel": "TensorFlow SavedModel (folder)",
    "frozen-graph": "TensorFlow GraphDef, frozen (.pb)",
    "keras": "Keras 3 model (.keras)",
    "keras-h5": "Keras model in HDF5 (.h5, .hdf5)",
    "tf-meta": "TensorFlow 1 checkpoint with its graph (.meta, or the folder that holds it)",
    "tflite": "TensorFlow Lite model (.tflite)",
    "caffe2": "Caffe2 folder: init_net.pb and predict_net.pb",
}
"""Every kind that can be recognized, with a description; the frontends define which ones are read."""

_HEAD = 65536
_HDF5 = b"\x89HDF\r\n\x1a\n"


def sniff(path: Path) -> str:
    """Return the kind of the file or folder at `path`: a key of `KINDS`, or one that a frontend or backend recognizes.

    Raises `BadInput`, with what it is instead, if the path is missing, broken or of no kind. Raises `UnsafeInput` for
    an archive made to deceive its reader, and `ResourceLimit` for one that is too large to examine.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise BadInput(f"{path} is neither a file nor a folder", hint="name the model's file")
        try:
            return folder_kind(path) if stat.S_ISDIR(mode) else _file_kind(path)
        except UnsafeInput:
            raise
        except BadInput:
            if kind := plugged_kind(path):
                return kind
            raise
    except FileNotFoundError:
        raise missing_path_error(path) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{path} cannot be read: {reason}", hint="check its permissions and its name") from None


def plugged_kind(path: Path) -> str:
    """Return the kind of an existing file or folder that a frontend or backend recognizes by its `SNIFF`, or ""."""
    known = plugin.kinds()
    head = b""
    if known and not path.is_dir():
        with path.open("rb") as file:
            head = file.read(_HEAD)
    return next((kind.name for kind in known if kind.matches(path, head)), "")


def _file_kind(path: Path) -> str:
    size = path.stat().st_size
    label = str(path)
    if size == 0:
        raise BadInput(f"{label} is empty", hint="get the file again; the download or the save was cut off")
    with path.open("rb") as file:
        head = file.read(_HEAD)
        foreign.check_pointer(label, head)
        check_holes(path)
        if is_zip(head[:4]):
            return _archive_kind(path)
        if b"PK\x03\x04".startswith(head[:4]):
            raise BadInput(f"{label} has {size} bytes, the first of a zip archive", hint="get the file again")
        if head.startswith(_HDF5) or any(head.startswith(_HDF5, at) for at in (512, 1024, 2048, 4096)):
            return _hdf5_kind(label, head, size)
        if head[4:8] == b"TFL3":
            return _tflite_kind(label, head, size)
        if head[4:9] == b"\0\0\0\0{":  # before pickles: a header of 640 bytes begins with 0x80 0x02 as well
            return _safetensors_kind(path, size)
        if head[:1] == b"\x80" and head[1:2] <= b"\x05":  # PROTO and the protocol
            return _content_kind(path, pickle_scan.torch_pickle_bytes(path))
        foreign.check_magic(label, head)
        foreign.check_text(label, head, size)
    return _protobuf_kind(path, head)


def _protobuf_kind(path: Path, head: bytes) -> str:
    try:
        name = protobuf_wire.message_in(path)
    except BadInput as error:
        raise BadInput(f"{path} is truncated: {error.message}", hint="get the file again, or save it again") from None
    beside = path.parent
    match name:
        case "ONNX ModelProto":
            return "onnx"
        case "TensorFlow GraphDef":
            return "frozen-graph"
        case "TensorFlow MetaGraphDef":
            return "tf-meta"
        case "SavedModel":
            raise BadInput(
                f"{path} is the graph of a SavedModel; its weights are in the folder that it belongs to",
                hint=f"name the folder: {beside}",
            )
        case "Caffe2 NetDef":
            raise BadInput(
                f"{path} is one of the two nets of a Caffe2 model",
                hint="name the folder that holds both, as init_net.pb and predict_net.pb",
            )
        case "ONNX TensorProto":
            raise BadInput(f"{path} is a single ONNX tensor (test data), not a model", hint="name the .onnx file")
        case "ONNX GraphProto":
            raise BadInput(f"{path} is an ONNX graph without its model", hint="save the ModelProto with onnx.save")
        case str():
            raise BadInput(f"{path} is a {name}, which is not read", hint="`convert formats` lists what can be read")
    if re.search(r"\.data-\d{5}-of-\d{5}$|\.index$", path.name):
        raise BadInput(
            f"{path} is a part of a TensorFlow checkpoint, which has weights and no graph",
            hint="name the SavedModel or Keras file, or the .meta file of a TensorFlow 1 checkpoint",
        )
    raise BadInput(
        f"{path} has an unknown format; it begins with the bytes {head[:16].hex(' ')}",
        hint="`convert formats` lists what can be read" + _suffix_hint(path),
    )


def _suffix_hint(path: Path) -> str:
    """Return a hint from the name of a file without a known content; suffixes are used for nothing else."""
    promised = {
        ".onnx": "ONNX", ".pt": "PyTorch", ".ptl": "PyTorch", ".pth": "PyTorch", ".ckpt": "PyTorch", ".pb": "protobuf",
        ".keras": "Keras", ".h5": "HDF5", ".tflite": "TensorFlow Lite", ".safetensors": "safetensors",
    }  # fmt: skip
    name = promised.get(path.suffix.lower())
    return f"; a file named {path.suffix} should hold {name} and may be damaged" if name else ""


def _hdf5_kind(label: str, head: bytes, size: int) -> str:
    """Return the kind; raise `BadInput` if the file is shorter than its superblock says (HDF5 specification, II.A)."""
    at = next(at for at in (0, 512, 1024, 2048, 4096) if head.startswith(_HDF5, at))
    block = head[at:]
    version = block[8] if len(block) > 8 else 0
    offset, width = (24 + (4 if version == 1 else 0), 13) if version < 2 else (12, 9)
    step = block[width] if len(block) > width else 0
    end = int.from_bytes(block[offset + 2 * step : offset + 3 * step], "little") if 0 < step <= 8 else size
    if len(block) < offset + 3 * step or size < end:
        raise BadInput(
            f"{label} is truncated: the HDF5 file should have {end:,} bytes, it has {size:,}",
            hint="get the file again, or save it again",
        )
    return "keras-h5"


def _tflite_kind(label: str, head: bytes, size: int) -> str:
    if int.from_bytes(head[:4], "little") + 4 > size:
        raise BadInput(f"{label} is a truncated TensorFlow Lite model", hint="get the file again")
    return "tflite"


def _safetensors_kind(path: Path, size: int) -> str:
    """Return the kind; raise `BadInput` unless the header is JSON of tensors that end where the file ends."""
    again = "get the file again, or save it again"
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, limits.SAFETENSORS_HEADER_BYTES):
            raise BadInput(
                f"{path} looks like safetensors, but is truncated: its header should have {length:,} bytes", hint=again
            )
        try:
            header: Any = parse_json(file.read(length), f"the header of {path}")
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            expected = 8 + length + max(ends, default=0)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise BadInput(f"{path} looks like safetensors, but its header is corrupt", hint=again) from None
    if expected != size:
        raise BadInput(f"{path} has {size:,} bytes, its safetensors header tells of {expected:,}", hint=again)
    return "safetensors"


def _archive_kind(path: Path) -> str:
    with open_archive(path) as archive:
        root = record_root(archive)
        names = {name.removeprefix(root) for name in archive.namelist()}
        if {"config.json", "metadata.json"} <= names:
            if not any(name.startswith("model.weights") for name in names):
                raise BadInput(f"{path} is a Keras archive without weights", hint="save it again with model.save")
            check_names(archive, names, "keras")
            return "keras"
        if "archive_format" in names or "serialized_exported_program.json" in names:
            check_names(archive, names, "pytorch")
            return _exported_kind(path, archive, names)
        if "data.pkl" in names:
            check_names(archive, names, "pytorch")
            if "constants.pkl" in names or any(name.startswith("code/") for name in names):
                return "torchscript"
            if any(name.startswith(".data/extern_modules") for name in names):
                raise BadInput(
                    f"{path} is a torch.package archive, whose code would have to be executed",
                    hint="load it with torch.package and save it with torch.export.save",
                )
            return _content_kind(path, read_member(archive, root + "data.pkl", limits.PICKLE_BYTES))
        if "model.json" in names and any(name.startswith("code/") for name in names):
            check_names(archive, names, "old torchscript")
            return "torchscript"
    raise _not_a_model_error(path, names)


def _exported_kind(path: Path, archive: zipfile.ZipFile, names: set[str]) -> str:
    entry = member(archive, "archive_format")
    if entry is None:
        return "torch-export"
    form = read_member(archive, entry, limits.ARCHIVE_FORMAT_BYTES).decode("ascii", "replace").strip()
    if form != "pt2":
        raise BadInput(f"{path} is an archive of format {form!r}, not pt2", hint="save it with torch.export.save")
    if not any(name.startswith("models/") and name.endswith(".json") for name in names):
        raise BadInput(
            f"{path} is a compiled PyTorch package (AOTInductor) without a graph",
            hint="convert the exported program that it was compiled from",
        )
    return "torch-export"


def _not_a_model_error(path: Path, names: set[str]) -> BadInput:
    """Return the error for a zip archive that is no model."""
    if not names:
        return BadInput(f"{path} is an empty zip archive", hint="get the file again, or save it again")
    if all(name.endswith(".npy") for name in names):
        return BadInput(
            f"{path} is a file of NumPy arrays (.npz), not a model", hint="arrays go to --inputs of `convert verify`"
        )
    ends = (".onnx", ".pt", ".pth", ".pt2", ".ptl", ".pb", ".pbtxt", ".h5", ".keras", ".tflite", ".safetensors", ".bin")
    packed = sorted(name for name in names if name.endswith(ends))
    what = f"that holds {', '.join(packed[:5])}" if packed else f"of {', '.join(sorted(names)[:5])}"
    return BadInput(f"{path} is a zip archive {what}", hint="unpack it and name the model inside")


def _content_kind(path: Path, data: bytes) -> str:
    """Return the kind of a torch.save pickle: a module or weights. Raises `BadInput` for anything else."""
    try:
        top = pickle_opcodes.read_pickle(data).top
    except BadInput as error:
        raise BadInput(f"{path}: {error.message}", hint=error.hint) from None
    content = pickle_scan.saved_content(top)
    if content == "module":
        return "torch-module"
    if content == "weights":
        return "torch-state-dict"
    raise BadInput(
        f"{path} is a file of torch.save that holds {content}, neither a module nor weights",
        hint="save the module, or its state_dict()",
    )
