"""Check that two states of the project convert models to the same graphs, node for node.

    python tests/suites/same_graphs.py --save before.json
    python tests/suites/same_graphs.py --compare before.json [after.json]

`--save` converts every model of `fixtures/` and forty of the zoo without verifying, and saves the results: nodes with
names, inputs, outputs and attributes, hashes of weights, metadata, notes, and the text of a refusal. `--compare`
converts again, or reads a second file, and reports whether each model and format is the same. The exit code is 1 if
anything differs. Only public functions of this clone's `convert` are used, so any layout of the project will do.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import io
import json
import multiprocessing.connection
import os
import random
import re
import sys
import tempfile
import time
import zipfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}

SHARED = "shared"  # ONNX in the shared graph's own opset: as near to that graph as a file comes
OF_FIXTURES = ("onnx", SHARED, "tf-frozen", "keras", "caffe2")
OF_ZOO = ("onnx", "tf-frozen", "keras", "caffe2")
BACK = ("tf-frozen", "keras", "caffe2", "tf", "tflite")
"""Formats that fixtures in ROUND are written to and read again from, to reach further frontends and backends."""

ROUND = ("mnist_cnn.pt", "mnist_cnn.keras", "super_resolution.pt", "tensorflow1/dynamic_lstm.pb", "tensorflow1/cond.pb")

_WEIGHTS = {"model": "fixtures.mnist_model:build"}
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("mnist_cnn_state.pt", "mnist_cnn_checkpoint.pt", "mnist_cnn.safetensors"), _WEIGHTS),
    "tensorflow1/checkpoint/model.ckpt.meta": {"outputs": ("tail/probabilities",)},
}
"""Options that a fixture needs."""

ZOO = (
    "botnet26t_256", "convnextv2_atto", "dla46_c", "hiera_tiny_224", "inception_next_atto", "mambaout_femto",
    "mobilenetv3_small_050", "pit_ti_224", "regnety_002", "resnet18", "skresnet18", "tf_efficientnetv2_b0",
    "bert", "albert", "distilbert", "mpnet", "fnet", "llama-past", "qwen2", "opt", "t5", "bart", "wav2vec2", "patchtst",
    "dinov2", "hf-vit", "segformer", "dpt", "detr", "clip",
    "smp-unet", "smp-deeplabv3plus", "lraspp-mobilenet-v3-large", "unet", "unet-2d", "autoencoder-kl",
    "lstm-tagger", "conv-tasnet", "spectrogram-gru", "kv-cache-step",
)  # fmt: skip
"""A few quick models of each kind of the zoo."""

SECONDS = 900
"""Wall time of one model in all its formats, after which its process is killed."""


# Node for node, ONNX in the shared graph's own opset is closest to that graph.

CONTAINERS = {"ModelProto", "GraphProto", "FunctionProto", "GraphDef", "FunctionDefLibrary", "FunctionDef", "NetDef"}
"""Messages whose parts are described on lines of their own: nodes, weights, functions, also inside of attributes."""

SORTED = {"AttributeProto": "name", "Argument": "name", "StringStringEntryProto": "key", "OperatorSetIdProto": "domain"}
"""Messages that are looked up by name, so that their order does not matter."""


def lines_of_message(message: Any, place: str) -> Iterator[str]:
    """Yield a line for the fields of `message`, then the lines of its parts and of the graphs inside of it."""
    below: list[tuple[str, Any]] = []
    yield f"{place} {_json(_fields(message, below, place))}"
    for where, part in below:
        yield from lines_of_message(part, where)


def _fields(message: Any, below: list[tuple[str, Any]], place: str) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        kind, inside = descriptor.message_type, f"{place}/{descriptor.name}"
        if kind is not None and kind.GetOptions().map_entry:
            # Protocol Buffers writes the entries of a map in an order that differs from run to run.
            told: Any = {str(key): _value(descriptor, value[key], below, f"{inside} {key}") for key in sorted(value)}
        elif not descriptor.is_repeated:
            told = _value(descriptor, value, below, inside)
        elif len(value) > 64 and isinstance(value[0], (int, float)):
            content = array("d", value).tobytes() if isinstance(value[0], float) else repr(list(value)).encode()
            told = f"{len(value)} numbers, {_hash(content)}"
        elif kind is not None and kind.name not in SORTED and message.DESCRIPTOR.name in CONTAINERS:
            below += [(f"{inside} {number}", part) for number, part in enumerate(value)]
            told = f"{len(value)} below"
        else:
            key = SORTED.get(kind.name) if kind is not None else None
            parts = sorted(value, key=attrgetter(key)) if key else value
            told = [_value(descriptor, p, below, f"{inside} {getattr(p, 'name', n)}") for n, p in enumerate(parts)]
        shown[descriptor.name] = told
    return shown


def _value(descriptor: Any, value: Any, below: list[tuple[str, Any]], place: str) -> Any:
    if isinstance(value, bytes):
        return _bytes(value)
    if descriptor.enum_type is not None and value in descriptor.enum_type.values_by_number:
        return descriptor.enum_type.values_by_number[value].name
    if not hasattr(value, "ListFields"):
        return value
    if value.DESCRIPTOR.name in CONTAINERS:
        below.append((place, value))
        return "below"
    return _fields(value, below, place)


def _bytes(value: bytes) -> str:
    return repr(value) if len(value) <= 64 else f"{len(value)} bytes, {_hash(value)}"


def _hash(value: bytes) -> str:
    return f"sha256 {hashlib.sha256(value).hexdigest()}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def lines_of_files(path: Path) -> Iterator[str]:
    """Yield the hash of every file, for formats with reproducible bytes, because a description may lack something."""
    # The fingerprint of a SavedModel contains a random number.
    files = [f for f in sorted(path.parent.rglob("*")) if f.is_file() and f.name != "fingerprint.pb"]
    yield from (f"file {file.relative_to(path.parent)} {_bytes(file.read_bytes())}" for file in files)


def lines_of_onnx(path: Path) -> Iterator[str]:
    """Yield the lines of the model, with weights in files beside it."""
    import onnx

    yield from lines_of_message(onnx.load(path), "model")
    yield from lines_of_files(path)


def lines_of_frozen(path: Path) -> Iterator[str]:
    """Yield the lines of a GraphDef. Its bytes are not reproducible, because a node's attributes are a map."""
    from tensorflow.core.framework.graph_pb2 import GraphDef

    yield from lines_of_message(GraphDef.FromString(path.read_bytes()), "graph")


def lines_of_keras(path: Path) -> Iterator[str]:
    """Yield a line for every layer of the configuration, every weight, and every other entry of the archive."""
    import h5py

    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".h5"):
                with h5py.File(io.BytesIO(content)) as file:
                    found = [f"weights {_stored(file)}"]
                    file.visititems(lambda key, thing, found=found: found.append(f"weights/{key} {_stored(thing)}"))
                    yield from found
            elif name.endswith(".json"):
                # Keras names shared initializers by their addresses: record only which layers share one.
                for number, place in enumerate(dict.fromkeys(re.findall(rb'"shared_object_id": (\d+)', content))):
                    content = content.replace(place, b"%d" % number)
                told = json.loads(content)
                told |= {"date_saved": "<now>"} if "date_saved" in told else {}  # the time of the run
                layers = told.get("config", {}).pop("layers", [])
                yield f"file {name} {_json(told)}"
                yield from (f"file {name}/layer {n} {_json(layer)}" for n, layer in enumerate(layers))
            else:
                yield f"file {name} {_bytes(content)}"


def _stored(thing: Any) -> str:
    told: dict[str, Any] = {"attributes": {key: str(value) for key, value in sorted(thing.attrs.items())}}
    if hasattr(thing, "shape"):
        told |= {"dtype": str(thing.dtype), "shape": thing.shape, "content": _bytes(thing[()].tobytes())}
    return _json(told)


CAFFE2 = {
    "TensorProto": "1*int64 dims, 2 int32 data_type, 3*float float_data, 4*int32 int32_data, 5 bytes byte_data, "
    "6*bytes string_data, 7 string name, 9*double double_data, 10*int64 int64_data, 13 bytes raw_data",
    "Argument": "1 string name, 2 float f, 3 int64 i, 4 bytes s, 5*float floats, 6*int64 ints, 7*bytes strings, "
    "8 NetDef n, 9*NetDef nets, 10 TensorProto t, 11*TensorProto tensors",
    "DeviceOption": "1 int32 device_type, 2 int32 device_id, 3 uint32 random_seed, 4 string node_name, "
    "5 int32 numa_node_id, 6*string extra_info",
    "OperatorDef": "1*string input, 2*string output, 3 string name, 4 string type, 5*Argument arg, "
    "6 DeviceOption device_option, 7 string engine, 8*string control_input, 9 bool is_gradient_op, "
    "10 string debug_info, 11 string domain, 12 int64 op_version",
    "NetDef": "1 string name, 2*OperatorDef op, 3 string type, 4 int32 num_workers, 5 DeviceOption device_option, "
    "6*Argument arg, 7*string external_input, 8*string external_output",
}
"""Caffe2's messages: number, * if repeated, type and name of each field; the project's own may have moved."""


def net_class() -> Any:
    """Return the class of NetDef, built from the table in a pool of its own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="same_graphs.proto", package="same_graphs", syntax="proto2")
    for name, fields in CAFFE2.items():
        message = file.message_type.add(name=name)
        for row in fields.split(", "):
            number, kind, called = row.replace("*", " ").split()
            made = message.field.add(name=called, number=int(number), label=3 if "*" in row else 1)
            if kind in CAFFE2:
                made.type_name = f".same_graphs.{kind}"
            else:
                made.type = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("same_graphs.NetDef"))


def lines_of_caffe2(path: Path) -> Iterator[str]:
    """Yield the lines of both nets, with hashes of their text forms."""
    for name in ("init_net", "predict_net"):
        yield from lines_of_message(net_class().FromString((path / f"{name}.pb").read_bytes()), name)
    yield from lines_of_files(path)


DESCRIBED = {"onnx": lines_of_onnx, "tf-frozen": lines_of_frozen, "keras": lines_of_keras, "caffe2": lines_of_caffe2,
             "tf": lines_of_files, "tflite": lines_of_files}  # fmt: skip
"""The function that describes the outputs of each format."""


# -- conversions -------------------------------------------------------------------------------------------------------


def fixtures() -> dict[str, Path]:
    """Return all models in fixtures/ by their paths there; reports then name no other folder."""
    folder = Path("fixtures")
    suffixes = (".pt", ".pt2", ".safetensors", ".onnx", ".keras", ".pb", ".meta", ".h5", ".tflite")
    inside = {path.parent for path in folder.rglob("saved_model.pb")}
    found = [p for p in folder.rglob("*") if p.suffix in suffixes and p.parent not in inside]
    return {path.relative_to(folder).as_posix(): path for path in sorted([*found, *inside])}


def work(connection: multiprocessing.connection.Connection, name: str) -> None:
    """Send the description of each format that the model is converted to; drop all printed output."""
    import numpy as np
    import torch
    from zoo_models import entries

    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    source: Any = fixtures().get(name)
    options = OPTIONS.get(name, {})
    if source is None:
        built = entries()[name].build()
        source, options = built.module, {"inputs": built.inputs, **built.options}
    with tempfile.TemporaryDirectory(prefix="same-graphs-") as folder:
        for form in forms_of(name):
            to, more = ("onnx", {"opset": 23}) if form == SHARED else (form, {})
            # A folder each, because some formats write files beside the output; its name is in the graph.
            path = Path(folder) / form / f"model.{to}"
            connection.send((form, converted(source, to, path, {**options, **more})))
            if name in ROUND and form in BACK and path.exists():
                connection.send((f"{form} → onnx", converted(path, "onnx", path.parent / "back" / "model.onnx", {})))


def forms_of(name: str) -> Iterable[str]:
    """Return the formats that a model is converted to."""
    return OF_ZOO if name in ZOO else dict.fromkeys((*OF_FIXTURES, *BACK)) if name in ROUND else OF_FIXTURES


def converted(source: Any, to: str, path: Path, options: Mapping[str, Any]) -> list[str]:
    """Return the lines of the output and of the report, or of the refusal."""
    import convert

    try:
        path.parent.mkdir()
        report = convert.convert(source, to, path, verify=False, **options).to_dict()
        del report["seconds"]  # wall times
        report["output_bytes"] -= to == "tf" and (path / "fingerprint.pb").stat().st_size  # its length is random
        lines = list(DESCRIBED[to](path))
        lines += [f"note {number} {note['text']}" for number, note in enumerate(report.pop("notes"))]
        lines += [f"report/{key} {_json(value)}" for key, value in report.items()]
    except Exception as error:
        outcome = "refused" if isinstance(error, convert.ConvertError) else "failed"
        lines = [f"{outcome} {type(error).__name__}: {line}" for line in str(error).splitlines() or [""]]
    # Folders that reports and errors name: that for temporary files is another one in each run, and the two states
    # of the project lie in two clones.
    temporary = re.compile(re.escape(tempfile.gettempdir()) + r"/same-graphs-\w+")
    return [temporary.sub("<temporary>", line).replace(str(ROOT), "<clone>") for line in lines]


def preload() -> None:
    """Import what child processes need, by public functions only, and without threads, which forks lack."""
    from zoo_models import entries

    entries()
    for name in ("keras", "tensorflow", "timm"):
        import_module(name)
    import torch
    import transformers

    import convert

    sys.path.append(str(ROOT))  # imported late, so that the factories in fixtures/ use the installed `convert`
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for form in ("onnx", "tf-frozen", "keras", "caffe2"):
        for source in ("mnist_cnn.pt", "mnist_cnn.keras"):
            with contextlib.suppress(Exception):  # if it fails, the child processes fail too, and report it
                convert.convert(f"fixtures/{source}", form, "model", dry_run=True)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] == "convert" and file and not Path(file).resolve().is_relative_to(ROOT):
            sys.exit(f"{name} is {file}, which is not of this clone: install the clone with pip install -e")
    gc.freeze()  # a garbage collection in a child would copy all shared pages


def run(names: Sequence[str]) -> dict[str, Any]:
    """Return the outcome of each model and format."""
    preload()
    context = multiprocessing.get_context("fork")
    outputs: dict[str, list[str]] = {}
    for name in names:
        start = time.perf_counter()
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(theirs, name))
        process.start()
        theirs.close()
        with contextlib.suppress(EOFError):
            while ours.poll(max(0.0, start + SECONDS - time.perf_counter())):
                form, lines = ours.recv()
                outputs[f"{name} → {form}"] = lines
            process.kill()
        process.join()
        for form in forms_of(name):
            outputs.setdefault(f"{name} → {form}", [f"lost the process ended with {process.exitcode}"])
        print(f"{time.perf_counter() - start:6.1f} s  {name}", file=sys.stderr)
    packages = ("torch", "tensorflow", "keras", "onnx", "onnx-ir", "timm", "transformers", "numpy", "protobuf")
    return {"about": {name: version(name) for name in packages}, "outputs": outputs}


# -- comparison --------------------------------------------------------------------------------------------------------

NODE = re.compile(r"(?:[^{]*/)?(?:node|node_def|op|layer) \d+ \{")


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Print for every model and format whether it is the same, with the first differences; return True if all are."""
    if before["about"] != after["about"]:
        print(f"versions differ: {before['about']} and {after['about']}")
    counts: Counter[str] = Counter()
    for key in dict.fromkeys([*before["outputs"], *after["outputs"]]):
        old, new = (side["outputs"].get(key, ["missing"]) for side in (before, after))
        word = old[0].partition(" ")[0]
        verdict = "DIFFERS" if old != new else word if word in ("refused", "failed", "lost") else "same"
        counts[verdict] += 1
        nodes = sum(bool(NODE.match(line)) for line in new)
        pairs = [(a, b) for a, b in zip_longest(old, new, fillvalue="") if a != b]
        print(f"{verdict:8} {key} ({nodes} nodes, {len(new)} lines, {len(pairs)} unequal)")
        for a, b in pairs[:3]:
            same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            cut, place = max(0, same - 60), f"{a[:50]} … " if same > 110 else ""
            print(f"    - {place}{a[cut : cut + 240]}\n    + {place}{b[cut : cut + 240]}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    # Failures on both sides prove nothing, and neither does an empty comparison.
    return bool(counts) and set(counts) <= {"same", "refused"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Save or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these models; by default all of them")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what became of each model")
    parser.add_argument("--compare", type=Path, nargs="+", metavar="FILE", help="with this run, or two files")
    options = parser.parse_args(arguments)
    save, others = options.save and options.save.resolve(), [path.resolve() for path in options.compare or ()]
    if len(others) + bool(save) not in (1, 2) or len(others) > 2:
        parser.error("give --save FILE, --compare FILE, both, or --compare FILE FILE")
    os.chdir(ROOT)
    names = options.only or [*fixtures(), *ZOO]
    if unknown := [name for name in names if name not in (*fixtures(), *ZOO)]:
        parser.error(f"there is no model {unknown[0]}")
    told = [json.loads(path.read_text("utf-8")) for path in others]
    if len(told) < 2:
        told.append(run(names))
    if save:
        save.write_text(json.dumps(told[-1], ensure_ascii=False, indent=0), "utf-8")
    if options.only:
        told = [{**t, "outputs": {k: v for k, v in t["outputs"].items() if k.split(" → ")[0] in names}} for t in told]
    return 0 if not others or compare(*told) else 1


if __name__ == "__main__":
    sys.exit(main())
