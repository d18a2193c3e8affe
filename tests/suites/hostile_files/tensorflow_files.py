"""SavedModels and graphs that write, read, connect or call Python, and checkpoints and folders with false content.

The operators run when a model is loaded, when it computes, or in functions that it calls. TensorFlow writes the files
in a process of its own: `python -m tests.suites.hostile_files.tensorflow_files FOLDER MARKER PORT`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name

GOOD = FIXTURES / "mnist_cnn.savedmodel"
GRAPH = FIXTURES / "mnist_cnn_frozen.pb"


def operators(tf: Any, marker: str, port: int) -> dict[str, Callable[[], Any]]:
    """Return operators whose effect is visible from outside."""
    raw, text = tf.raw_ops, marker
    numbers = [1.0, 2.0]
    data = raw.TensorDataset(components=[tf.constant("x")], output_shapes=[()])
    return {
        "WriteFile": lambda: raw.WriteFile(filename=text, contents="x"),
        "ReadFile": lambda: raw.ReadFile(filename="/etc/passwd"),
        "MatchingFiles": lambda: raw.MatchingFiles(pattern="/etc/*"),
        "PrintV2": lambda: raw.PrintV2(input="x", output_stream=f"file://{text}"),
        "DebugNanCount": lambda: raw.DebugNanCount(input=numbers, debug_urls=[f"file://{text}"]),
        "DebugNumericSummary": lambda: raw.DebugNumericSummary(input=numbers, debug_urls=[f"file://{text}"]),
        "DebugIdentity": lambda: raw.DebugIdentity(input=numbers, debug_urls=[f"file://{text}"]),
        "DebugIdentityV2": lambda: raw.DebugIdentityV2(input=numbers, debug_urls=[f"file://{text}"]),
        "DatasetToTFRecord": lambda: raw.DatasetToTFRecord(input_dataset=data, filename=text, compression_type=""),
        "SaveV2": lambda: raw.SaveV2(prefix=text, tensor_names=["a"], shape_and_slices=[""], tensors=[numbers]),
        "Save": lambda: raw.Save(filename=text, tensor_names=["a"], data=[numbers]),
        "RestoreV2": lambda: raw.RestoreV2(prefix="/etc/x", tensor_names=["a"], shape_and_slices=[""],
                                           dtypes=[tf.float32]),
        "TextFileTable": lambda: raw.InitializeTableFromTextFileV2(
            table_handle=raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64), filename="/etc/passwd",
            key_index=-2, value_index=-1),
        "DecodeProtoV2": lambda: raw.DecodeProtoV2(bytes=["x"], message_type="x", field_names=[], output_types=[],
                                                   descriptor_source="/etc/passwd"),
        "ImmutableConst": lambda: raw.ImmutableConst(dtype=tf.float32, shape=[1], memory_region_name="/etc/passwd"),
        "CreateSummaryFileWriter": lambda: raw.CreateSummaryFileWriter(
            writer=raw.SummaryWriter(), logdir=os.path.dirname(text), max_queue=1, flush_millis=1, filename_suffix="x"),
        "CacheDataset": lambda: raw.DatasetToSingleElement(
            dataset=raw.CacheDataset(input_dataset=data, filename=text, output_types=[tf.string], output_shapes=[()]),
            output_types=[tf.string], output_shapes=[()]),
        "TextLineDataset": lambda: raw.DatasetToSingleElement(
            dataset=raw.TakeDataset(input_dataset=raw.TextLineDataset(
                filenames="/etc/passwd", compression_type="", buffer_size=10), count=1, output_types=[tf.string],
                output_shapes=[()]), output_types=[tf.string], output_shapes=[()]),
        "PyFunc": lambda: tf.py_function(lambda: 1.0, [], tf.float32),
        "EagerPyFunc": lambda: tf.numpy_function(lambda: 1.0, [], tf.float32),
        "Send": lambda: raw.CollectiveReduce(input=numbers, group_size=2, group_key=1, instance_key=1, merge_op="Add",
                                             final_op="Id", subdiv_offsets=[0]),
        "ConfigureDistributedTPU": lambda: raw.ConfigureDistributedTPU(),
        "Abort": lambda: raw.Abort(error_msg="x"),
        "ReaderRead": lambda: raw.WholeFileReaderV2(),
        "DynamicEnqueue": lambda: raw.FIFOQueueV2(component_types=[tf.float32], shared_name="x"),
        "MergeV2Checkpoints": lambda: raw.MergeV2Checkpoints(
            checkpoint_prefixes=["/tmp/none"], destination_prefix=text, delete_old_dirs=True),
        "a loop without end": lambda: tf.while_loop(lambda i: True, lambda i: i + 1, [tf.constant(0)]),
        "a tensor of 2^50": lambda: tf.zeros([1 << 25, 1 << 25])[0],
        "Stage": lambda: raw.Stage(values=[numbers]),
        "RemoteCall": lambda: raw.Barrier(component_types=[tf.float32]),
        "FileSystemSetConfiguration": lambda: raw.FileSystemSetConfiguration(scheme="s3", key="x", value="y"),
    }  # fmt: skip


def counting_operators(tf: Any) -> dict[str, Callable[[], Any]]:
    """Return operators with a number that counts loops, or the elements of a table, while they are read."""
    raw, most = tf.raw_ops, 1 << 28

    def x(dtype: Any, *dims: int | None) -> Any:
        return tf.compat.v1.placeholder(dtype, dims, name="x")

    def picture() -> Any:
        return x(tf.float32, None, 8, 8, 1)

    one = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    return {
        "AsString": lambda: raw.AsString(input=x(tf.int32, None), width=most, fill="0"),
        "StringNGrams": lambda: raw.StringNGrams(
            data=x(tf.string, None), data_splits=tf.constant([0, 3], tf.int64), separator=" ", ngram_widths=[most],
            left_pad="", right_pad="", pad_width=0, preserve_short_sequences=False)[0],
        "DynamicPartition": lambda: raw.DynamicPartition(
            data=x(tf.float32, None), partitions=tf.constant([0]), num_partitions=30_000)[0],
        "Dilation2D": lambda: raw.Dilation2D(
            input=x(tf.float32, None, 2000, 2000, 1),
            filter=tf.compat.v1.placeholder(tf.float32, [1500, 1500, 1], name="f"), **one | {"padding": "VALID"}),
        "ExtractImagePatches": lambda: raw.ExtractImagePatches(images=picture(), ksizes=[1, most, 1, 1], **one),
        "ResizeBicubic": lambda: raw.ResizeBicubic(images=picture(), size=tf.constant([most, 2])),
        "ResizeArea": lambda: raw.ResizeArea(images=picture(), size=tf.constant([most >> 4, 2])),
        "ScaleAndTranslate": lambda: raw.ScaleAndTranslate(
            images=picture(), size=tf.constant([most >> 4, 2]), scale=[1.0, 1.0], translation=[0.0, 0.0]),
        "CropAndResize": lambda: raw.CropAndResize(
            image=picture(), boxes=tf.constant([[0.0, 0.0, 1.0, 1.0]]), box_ind=tf.constant([0]),
            crop_size=tf.constant([most, 2])),
        "HistogramFixedWidth": lambda: raw.HistogramFixedWidth(
            values=x(tf.float32, None), value_range=tf.constant([0.0, 1.0]), nbins=tf.constant(most)),
        "Bincount": lambda: raw.Bincount(arr=x(tf.int32, None), size=tf.constant(most), weights=tf.constant([1.0])),
        "RFFT": lambda: raw.RFFT(input=x(tf.float32, None, 8), fft_length=tf.constant([most])),
        "LRN": lambda: raw.LRN(input=picture(), depth_radius=most),
        "MaxPoolWithArgmax": lambda: raw.MaxPoolWithArgmax(
            input=x(tf.float32, None, None, None, 1), ksize=[1, 1 << 14, 1 << 14, 1], strides=[1, 1, 1, 1],
            padding="SAME")[1],
        "Unpack": lambda: raw.Unpack(value=x(tf.float32, 30_000, 3), num=30_000)[0],
        "ReduceJoin": lambda: raw.ReduceJoin(inputs=x(tf.string, 30_000), reduction_indices=tf.constant([0])),
    }  # fmt: skip


def write_counts(folder: Path) -> None:
    """Write a frozen graph for each of `counting_operators`."""
    import tensorflow as tf

    for name, make in counting_operators(tf).items():
        with tf.compat.v1.Graph().as_default() as graph:
            tf.identity(make(), name="out")
        (folder / f"counts_{name}.pb").write_bytes(graph.as_graph_def().SerializeToString())


def write_models(folder: Path, marker: str, port: int) -> None:
    """Write for each operator a SavedModel that computes with it, another that loads with it, and a frozen graph."""
    import tensorflow as tf
    from tensorflow.python.trackable.resource import TrackableResource

    told: dict[str, str] = {}
    for name in operators(tf, marker, port):
        for place in ("signature", "function", "initializer", "frozen"):
            path = folder / f"{file_name(name)}_{place}{'.pb' if place == 'frozen' else ''}"
            try:
                _write_model(tf, TrackableResource, path, name, place, marker, port)
            except Exception as error:
                told[path.name] = f"{type(error).__name__}: {str(error)[:200]}"
    (folder / "not_written.json").write_text(json.dumps(told, indent=1))


def _write_model(tf: Any, resource: Any, path: Path, name: str, place: str, marker: str, port: int) -> None:
    def act() -> None:
        operators(tf, marker, port)[name]()

    def compute(x: Any) -> Any:
        if place == "initializer":
            return {"y": x + 1}
        graph = tf.compat.v1.get_default_graph()
        before = set(graph.get_operations())
        tf.function(act)() if place == "function" else act()
        with tf.control_dependencies([o for o in graph.get_operations() if o not in before]):
            return {"y": tf.identity(x + 1)}

    class Loaded(resource):
        def _create_resource(self) -> Any:
            return tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

        def _initialize(self) -> None:
            act()

    function = tf.function(compute, input_signature=[tf.TensorSpec((2,), tf.float32, name="x")])
    if place == "frozen":
        path.write_bytes(function.get_concrete_function().graph.as_graph_def().SerializeToString())
        return
    module = tf.Module()
    module.f = function
    if place == "initializer":
        module.loaded = Loaded()
        with tf.init_scope():
            tf.saved_model.save(module, str(path), signatures=function)
    else:
        tf.saved_model.save(module, str(path), signatures=function)


def _plain(folder: Path) -> Path:
    import tensorflow as tf

    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x + 1}, input_signature=[tf.TensorSpec((2,), tf.float32, name="x")])
    tf.saved_model.save(module, str(folder / "good"), signatures=module.f)
    return folder / "good"


def _changed_folders(folder: Path) -> Iterator[Case]:
    """Write copies of a good SavedModel with one false part."""
    index, data = "variables/variables.index", "variables/variables.data-00000-of-00001"

    def copy(name: str) -> Path:
        return Path(shutil.copytree(GOOD, folder / file_name(name)))

    for part in ("saved_model.pb", index, data):
        for place in ("/dev/zero", "/etc/passwd", "loop"):
            path = copy(f"{part} is a link to {place}")
            (path / part).unlink()
            os.symlink(Path(part).name if place == "loop" else place, path / part)
            yield Case(path.name, path, good=GOOD)
        path = copy(f"{part} is a pipe")
        (path / part).unlink()
        os.mkfifo(path / part)
        yield Case(path.name, path, good=GOOD)
        path = copy(f"{part} is a folder")
        (path / part).unlink()
        (path / part).mkdir()
        yield Case(path.name, path, good=GOOD)
    for name in ("fingerprint.pb", "debug/saved_model_debug_info.pb", "assets/words.txt", "keras_metadata.pb"):
        path = copy(f"{name} is a pipe")
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
        yield Case(path.name, path, good=GOOD)
        path = copy(f"{name} is noise")
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"\xff" * 1000)
        yield Case(path.name, path, good=GOOD)
    path = copy("a sparse terabyte of variables")
    with (path / data).open("r+b") as file:
        file.truncate(1 << 40)
    yield Case(path.name, path, good=GOOD)
    path = copy("variables that are a link")
    shutil.rmtree(path / "variables")
    os.symlink("/", path / "variables")
    yield Case(path.name, path, good=GOOD)
    yield from _changed_indices(folder, copy, index)


def _changed_texts(folder: Path) -> Iterator[Case]:
    """Write SavedModels in the text form of the message."""
    from google.protobuf import text_format
    from tensorflow.core.protobuf import saved_model_pb2

    good = text_format.MessageToString(saved_model_pb2.SavedModel.FromString((GOOD / "saved_model.pb").read_bytes()))
    value = ' attr { key: "a" value { func {'
    texts = {
        "as it was": good,
        "an operator that writes": good.replace("graph_def {", 'graph_def { node { name: "w" op: "WriteFile" }', 1),
        "messages in one another": "meta_graphs { graph_def { node {" + value * 20_000,
        "unknown messages in one another": "zz {" * 100_000,
        "a number of a million digits": "saved_model_schema_version: " + "9" * 1_000_000,
        "noise": "\0\1\2",
        "control characters": good + '\nmeta_graphs { meta_info_def { tags: "\\033[31m" } }\n\x1b[31m\u202e',
    }
    for name, text in texts.items():
        path = Path(shutil.copytree(GOOD, folder / file_name(f"text {name}")))
        (path / "saved_model.pb").unlink()
        (path / "saved_model.pbtxt").write_text(text)
        yield Case(f"text: {name}", path, good=GOOD)


def _changed_indices(folder: Path, copy: Callable[[str], Path], index: str) -> Iterator[Case]:
    """Write entries of the index that point elsewhere, with correct checksums."""
    from tests.suites.fuzzing.wire import fields_of, message_of, table_entries, table_of

    entries = table_entries((GOOD / index).read_bytes())
    changes = {"an offset beyond": (4, 1 << 40), "an offset below zero": (4, 2**64 - 8), "a size of 2^62": (5, 1 << 62),
               "a size below zero": (5, 2**64 - 4), "a shard that is not there": (3, 77), "another dtype": (1, 2),
               "no dtype": (1, 0), "a string": (1, 7)}  # fmt: skip
    for name, (number, value) in changes.items():
        path = copy(f"index {name}")
        changed = []
        for key, content in entries:
            fields = [f for f in fields_of(content) if f[0] != number] if key and key[:6] != b"_CHECK" else None
            changed.append((key, message_of([*fields, (number, 0, value)]) if fields is not None else content))
        (path / index).write_bytes(table_of(changed))
        yield Case(path.name, path, good=GOOD)


def _changed_graphs(folder: Path) -> Iterator[Case]:
    """Frozen graphs out of proportion."""
    from tensorflow.core.framework import graph_pb2

    def save(name: str, graph: Any) -> Case:
        path = folder / f"{file_name(name)}.pb"
        path.write_bytes(graph.SerializeToString())
        return Case(name, path, good=GRAPH)

    def load() -> Any:
        return graph_pb2.GraphDef.FromString(GRAPH.read_bytes())

    graph = load()
    constant = next(node for node in graph.node if node.op == "Const")
    constant.attr["value"].tensor.tensor_shape.dim.add(size=1 << 50)
    yield save("a constant of 2^50", graph)
    graph = load()
    constant = next(node for node in graph.node if node.op == "Const" and node.attr["value"].tensor.dtype == 1)
    tensor = constant.attr["value"].tensor
    del tensor.tensor_shape.dim[:]
    tensor.tensor_content = b""
    tensor.float_val.append(1.0)
    for _ in range(2):
        tensor.tensor_shape.dim.add(size=1 << 28)
    yield save("a constant of one number, 2^56 times", graph)
    graph = load()
    graph.node[-1].name = graph.node[0].name
    yield save("one name twice", graph)
    graph = load()
    last = graph.node[-1].name
    for i in range(20_000):
        graph.node.add(name=f"n{i}", op="Neg", input=[last]).attr["T"].type = 1
        last = f"n{i}"
    yield save("a chain of 20,000", graph)
    graph = load()
    graph.node[-1].device = "/job:worker/replica:0/task:9/device:GPU:7"
    graph.node[-1].name = "a\u202e\x1b[31m"
    yield save("a device and a name", graph)
    graph = load()
    graph.versions.producer = 1 << 30
    graph.versions.min_consumer = 1 << 30
    yield save("a version of 2^30", graph)
    for operator in ("Mul", "ConcatV2"):
        graph = load()
        sizes = graph.node.add(op="Shape", name="sizes0", input=[graph.node[-1].name])
        sizes.attr["T"].type, sizes.attr["out_type"].type = 1, 3
        axis = graph.node.add(op="Const", name="axis")
        axis.attr["dtype"].type = axis.attr["value"].tensor.dtype = 3
        axis.attr["value"].tensor.tensor_shape.SetInParent()
        axis.attr["value"].tensor.int_val.append(0)
        for i in range(60):
            both = [f"sizes{i}"] * 2 + ["axis"] * (operator == "ConcatV2")
            node = graph.node.add(op=operator, name=f"sizes{i + 1}", input=both)
            node.attr["T"].type = 3
            if operator == "ConcatV2":
                node.attr["N"].i, node.attr["Tidx"].type = 2, 3
        yield save(f"sizes that 60 of {operator} double", graph)
    for operator, types in {
        "StridedSlice": ("T", "Index"),
        "Tile": ("T", "Tmultiples"),
        "Pad": ("T", "Tpaddings"),
    }.items():
        graph = load()
        last = graph.node[-1].name
        ones = graph.node.add(op="Const", name="ones")
        tensor = ones.attr["value"].tensor
        ones.attr["dtype"].type = tensor.dtype = 3
        for size in (20_000, 2)[: 1 + (operator == "Pad")]:
            tensor.tensor_shape.dim.add(size=size)
        tensor.int_val.append(1)
        node = graph.node.add(
            op=operator, name="long", input=[last, *["ones"] * (3 if operator == "StridedSlice" else 1)]
        )
        for name, kind in zip(types, (1, 3), strict=True):
            node.attr[name].type = kind
        yield save(f"20,000 numbers of a {operator}", graph)


def tensorflow_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write all files of the class."""
    command = [sys.executable, "-m", __name__, str(folder), str(canary.marker), str(canary.port)]
    subprocess.run(command, check=True, capture_output=True)
    canary.marker.unlink(missing_ok=True)
    good = folder / "good"
    for path in sorted(folder.iterdir()):
        if path.suffix != ".json" and path != good:
            yield Case(path.name, path, good=good)
    changed = folder / "changed"
    changed.mkdir()
    yield from _changed_folders(changed)
    yield from _changed_texts(changed)
    yield from _changed_graphs(changed)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    _plain(place)
    write_counts(place)
    write_models(place, sys.argv[2], int(sys.argv[3]))
