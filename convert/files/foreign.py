"""Recognizes files that are no model for us (a Git-LFS pointer, a web page, an archive, …), and says what to do."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from convert.errors import BadInput

# (offset, bytes, what it is, hint)
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x1f\x8b", "compressed with gzip", "unpack it (gunzip, or tar xzf) and convert what is inside"),
    (0, b"\xfd7zXZ\x00", "compressed with xz", "unpack it (unxz, or tar xJf) and convert what is inside"),
    (0, b"BZh", "compressed with bzip2", "unpack it (bunzip2, or tar xjf) and convert what is inside"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it (unzstd) and convert what is inside"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it and convert what is inside"),
    (0, b"Rar!\x1a\x07", "a RAR archive", "unpack it and convert what is inside"),
    (257, b"ustar", "a tar archive", "unpack it (tar xf) and convert what is inside"),
    (0, b"\x93NUMPY", "a NumPy array", "arrays go to --inputs of `convert verify`; a model is another file"),
    (4, b"ORTM", "an ONNX Runtime (.ort) model, already optimized for one machine",
     "convert the .onnx file that it was made from"),
    (4, b"ET12", "an ExecuTorch (.pte) program", "convert the PyTorch module or the .pt2 file that it was made from"),
    (8, b"!!META_NET_DEF", "a database of Caffe2's predictor_exporter",
     "call it predictor.minidb, and name the folder that it is in"),
    (4, b"PTMF", "TorchScript in flatbuffer form (.ptl), whose code is not looked through here",
     "if you trust it, load it with torch.jit.load and save that with torch.jit.save"),
    (0, b"GGUF", "a GGUF file of llama.cpp", "convert the folder of safetensors that it was made from; without it, let "
     "transformers write one: AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=NAME).save_pretrained(NEW)"),
    (0, b"ptrt", "a TensorRT engine, compiled for one GPU", "convert the ONNX model that it was made from"),
    (0, b"\x7fELF", "a compiled program or library", "name the model's file"),
    (0, b"%PDF", "a PDF document", "name the model's file"),
    (0, b"\x89PNG", "a PNG picture", "name the model's file"),
    (0, b"\xff\xd8\xff", "a JPEG picture", "name the model's file"),
    (0, b"SQLite format 3\x00", "a SQLite database", "name the model's file"),
    (0, b"BC\xc0\xde", "LLVM bitcode", "name the model's file"),
)  # fmt: skip

_POINTER = re.compile(rb"version https://git-lfs\S+\s.*?oid sha256:([0-9a-f]{64})\s+size (\d{1,20})", re.DOTALL)
_PROTOBUF_TEXT = re.compile(r"(ir_version|node|graph_def|meta_graphs|name|op|layer)\b\s*[:{]")
_TORCH_TAR = (b"sys_info", b"pickle", b"storages", b"tensors", b"./sys_info", b"./pickle")
_AGAIN = "download it again; the address, a login or the file's size may be wrong"


def check_pointer(label: str, head: bytes) -> None:
    """Raise `BadInput` if a file that begins with `head` is a Git-LFS pointer."""
    if not head.startswith(b"version https://git-lfs.github.com/spec"):
        return
    pointer = _POINTER.match(head)
    what = f"to {int(pointer[2]):,} bytes, oid sha256:{pointer[1].decode()}" if pointer else "that is damaged"
    raise BadInput(
        f"{label} is not the model but a Git-LFS pointer {what}",
        hint="run `git lfs pull` in its repository to get the file",
    )


def check_magic(label: str, head: bytes) -> None:
    """Raise `BadInput` if the first bytes are those of a known kind of file that is no model for us."""
    for offset, magic, what, hint in _MAGIC:
        if head.startswith(magic, offset):
            if what == "a tar archive" and head[:100].rstrip(b"\0").split(b"\0")[0] in _TORCH_TAR:
                what = "a PyTorch file of before 2017 (tar)"
                hint = "load it with torch.load of PyTorch 1 and save it again"
            raise BadInput(f"{label} is {what}", hint=hint)


def check_text(label: str, head: bytes, size: int) -> None:
    """Raise `BadInput` if a file of `size` bytes that begins with `head` is text, which no model is."""
    text = _decode_text(head, len(head) < size)
    if text is None:
        return
    start = text.lstrip("\ufeff \t\r\n")
    first = start.split("\n", 1)[0].strip()[:80]
    lower = start[:200].lower()
    what, hint = f"plain text; it begins with {first!r}", "name the model's file"
    if lower.startswith(("<!doctype html", "<html")) or "<html" in lower:
        title = re.search(r"<title[^>]*>\s*(.*?)\s*</title", start, re.IGNORECASE | re.DOTALL)
        what, hint = "a web page" + (f" ({title[1][:80]!r})" if title else "") + ", saved in the model's place", _AGAIN
    elif label.endswith(".toml"):
        what, hint = "a manifest of models, it seems", f"convert batch {shlex.quote(label)} -o converted"
    elif start.startswith(("<?xml", "<net ")):
        what, hint = "XML", "OpenVINO and PMML models are not read: convert the model that it was made from"
        if "<Error>" in start[:500]:
            what, hint = "an error message of a server (XML), saved in the model's place", _AGAIN
    elif start.startswith(("{", "[")):
        what, hint = _describe_json(start, len(head) >= size)
    elif _PROTOBUF_TEXT.match(start):
        what = "a model as protobuf text"
        hint = _binary_hint(label, start)
    elif label.endswith(".py") or re.search(r"^(import|from) \w+", start, re.MULTILINE):
        what = "Python source"
        hint = (
            "name the file with the weights, and the code with --model FILE:FACTORY; convert a function of JAX in "
            "Python: convert.convert(function, 'onnx', inputs='x:float32[batch,3]')"
        )
    raise BadInput(f"{label} is {what}", hint=hint)


def _binary_hint(label: str, text: str) -> str:
    """Return what to run so that a model in protobuf's text form is saved in its binary form."""
    root = Path(label).with_suffix("")
    if re.match(r"ir_version\b", text):
        return f"save it in binary form: onnx.save(onnx.load({label!r}, format='textproto'), '{root}.onnx')"
    if re.match(r"node\b\s*\{", text):
        return (
            "save it in binary form: graph = tensorflow.compat.v1.GraphDef(); "
            f"google.protobuf.text_format.Parse(open({label!r}).read(), graph); "
            f"open('{root}.pb', 'wb').write(graph.SerializeToString())"
        )
    return "parse it with google.protobuf.text_format and save it in binary form"


def _describe_json(text: str, whole: bool) -> tuple[str, str]:
    """Return what a JSON text is, and what to do about it, by its outermost keys."""
    keys: set[str] = set(re.findall(r'"(\w+)"\s*:', text[:4096]))
    if whole:
        try:
            value = json.loads(text)
            keys = set(value) if isinstance(value, dict) else set()
        except (ValueError, RecursionError):
            return "JSON that is truncated or corrupt", _AGAIN
    if "weight_map" in keys:
        return "the index of a model in several files", "name the folder that holds it"
    if "modelTopology" in keys or "weightsManifest" in keys:
        return "a TensorFlow.js model, which is not read", "convert the Keras model or SavedModel that it was made from"
    if {"class_name", "config"} <= keys:
        return "a Keras configuration without weights", "save the whole model with model.save('model.keras')"
    if {"architectures", "model_type"} & keys:
        return "the configuration of a Hugging Face model", "name the folder that holds it"
    if {"error", "message", "errors", "detail"} & keys:
        return f"an error message of a server (JSON), saved in the model's place: {text.strip()[:100]!r}", _AGAIN
    return "JSON, which no format here consists of", "name the model's file"


def _decode_text(head: bytes, cut: bool) -> str | None:
    """Return `head` as text, or None if it is binary; `cut` says that the last character may be incomplete."""
    for encoding, mark in (("utf-16", b"\xff\xfe"), ("utf-16", b"\xfe\xff")):
        if head.startswith(mark):
            return head.decode(encoding, "replace")
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(head) - 4:
            return None
        text = head[: error.start].decode("utf-8")
    return None if any(c < " " and c not in "\t\n\r\f\x1b" for c in text) else text
