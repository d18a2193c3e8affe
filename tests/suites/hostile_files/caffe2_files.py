"""Caffe2 nets that call Python, access files, nest without end, or allocate too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import Canary, Case, file_name


def _nets() -> tuple[Any, Any]:
    """A net from x to y = -x + w."""
    from convert.files.caffe2 import caffe2_pb2

    pb: Any = caffe2_pb2
    init, predict = pb.NetDef(name="init"), pb.NetDef(name="predict")
    fill = init.op.add(type="GivenTensorFill", output=["w"])
    fill.arg.add(name="shape", ints=[2])
    fill.arg.add(name="values", floats=[1.0, 2.0])
    predict.op.add(type="Negative", input=["x"], output=["h"])
    predict.op.add(type="Add", input=["h", "w"], output=["y"])
    predict.external_input.extend(["x", "w"])
    predict.external_output.append("y")
    predict.arg.add(name="convert_inputs", strings=[b"x:float32[2]"])
    return init, predict


def _operators(canary: Canary) -> dict[str, tuple[str, dict[str, Any]]]:
    place = str(canary.marker).encode()
    return {
        "Python": ("Python", {"token": b"os.system"}),
        "PythonDLPack": ("PythonDLPack", {"token": b"x"}),
        "Save": ("Save", {"db": place, "db_type": b"minidb"}),
        "Load": ("Load", {"db": b"/etc/passwd", "db_type": b"minidb", "absolute_path": 1}),
        "Load of leveldb": ("Load", {"db": place, "db_type": b"leveldb"}),
        "CreateDB": ("CreateDB", {"db": place, "db_type": b"leveldb"}),
        "Snapshot": ("Snapshot", {"db": place, "db_type": b"minidb", "every": 1}),
        "Print": ("Print", {"to_file": 1}),
        "FileStoreHandlerCreate": ("FileStoreHandlerCreate", {"path": place}),
        "RedisStoreHandlerCreate": ("RedisStoreHandlerCreate", {"host": b"127.0.0.1", "port": canary.port}),
        "CreateTextFileReader": ("CreateTextFileReader", {"filename": b"/etc/passwd"}),
        "ImageInput": ("ImageInput", {"db": b"/etc"}),
        "a fill of 2^60": ("ConstantFill", {"shape": [1 << 60]}),
        "a fill of 2^31 x 2^31": ("ConstantFill", {"shape": [1 << 31, 1 << 31]}),
        "a fill of -1": ("ConstantFill", {"shape": [-1]}),
        "a random fill of 2^50": ("GaussianFill", {"shape": [1 << 50]}),
        "a fill of another length": ("GivenTensorFill", {"shape": [5], "values": [1.0]}),
        "a name with control characters": ("Odd\u202e\x1b[31m\n", {}),
    }


_MOST = (1 << 62) - 1
_OPERATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "a kernel of 0": ("MaxPool", {"kernel": 0, "stride": 1}),
    "a kernel below zero": ("AveragePool", {"kernels": [-3, -3]}),
    "a kernel of 2^62": ("MaxPool", {"kernel": _MOST, "pad": _MOST}),
    "a stride of 0": ("MaxPool", {"kernel": 2, "stride": 0}),
    "pads of 2^62": ("PadImage", {"pad": _MOST}),
    "pads below zero": ("PadImage", {"pads": [-9, -9, -9, -9]}),
    "a Reshape to 2^62": ("Reshape", {"shape": [_MOST, -1]}),
    "a Reshape of two unknown": ("Reshape", {"shape": [-1, -1]}),
    "a Tile of 2^62": ("Tile", {"tiles": _MOST, "axis": 1}),
    "a Tile below zero": ("Tile", {"tiles": -1, "axis": -99}),
    "an Expand to 2^62": ("Expand", {"shape": [1 << 40, 1 << 20, 1, 1]}),
    "a Slice of nothing": ("Slice", {"starts": [9, 9, 9, 9], "ends": [0, 0, 0, 0]}),
    "a Slice of 1,000 axes": ("Slice", {"starts": [0] * 1000, "ends": [1] * 1000}),
    "a Transpose of one axis": ("Transpose", {"axes": [0, 0, 0, 0]}),
    "a Concat of an axis of 2^62": ("Concat", {"axis": _MOST}),
    "a TopK of 2^62": ("TopK", {"k": _MOST}),
    "a Resize by infinity": ("ResizeNearest", {"width_scale": float("inf"), "height_scale": float("nan")}),
    "a Resize by 2^60": ("ResizeNearest", {"width_scale": 1e18, "height_scale": 1e18}),
    "a Resize below zero": ("UpsampleBilinear", {"width_scale": -2.0, "height_scale": 0.0}),
    "groups of 0": ("ChannelShuffle", {"group": 0, "kernel": 1}),
    "blocks of 0": ("SpaceToBatch", {"block_size": 0}),
    "a norm of size 0": ("LRN", {"size": 0, "alpha": 1e38, "beta": float("nan")}),
    "a Squeeze of 2^62": ("Squeeze", {"dims": [_MOST, -1]}),
    "an ExpandDims of 1,000": ("ExpandDims", {"dims": list(range(1000))}),
    "a sum over 2^62": ("ReduceSum", {"axes": [_MOST] * 100}),
    "a Split of 2^62": ("Split", {"axis": 1, "split": [_MOST, -_MOST]}),
    "a Cast to nothing": ("Cast", {"to": 99}),
    "a fill as large as its input says": ("ConstantFill", {"extra_shape": [_MOST, _MOST], "value": 1.0}),
    "a Range of 2^62": ("Range", {"stop": _MOST}),
    "a RecurrentNetwork of a text": ("RecurrentNetwork", {"step_net": b"name: 'x'", "recurrent_states": [0]}),
    "arguments that are bytes": ("MaxPool", {"kernel": b"\x1b[31m<b>", "order": b"\xff\xfe"}),
}


def _argument(op: Any, name: str, value: Any) -> None:
    arg = op.arg.add(name=name)
    if isinstance(value, bytes):
        arg.s = value
    elif isinstance(value, float):
        arg.f = value
    elif isinstance(value, int):
        arg.i = value
    elif all(isinstance(v, int) for v in value):
        arg.ints.extend(value)
    else:
        arg.floats.extend(value)


def _nested(init: Any, predict: Any) -> None:
    net = predict
    for _ in range(95):
        op = net.op.add(type="If", input=["x"], output=["z"])
        net = op.arg.add(name="then_net").n


def _endless(init: Any, predict: Any) -> None:
    one = init.op.add(type="ConstantFill", output=["go"])
    one.arg.add(name="shape", ints=[1])
    one.arg.add(name="value", i=1)
    one.arg.add(name="dtype", i=5)
    op = predict.op.add(type="While", input=["go"], output=["y"])
    body = op.arg.add(name="loop_net").n
    body.op.add(type="Negative", input=["y"], output=["y"])
    predict.external_input.append("go")


def _circle(init: Any, predict: Any) -> None:
    predict.op[0].input[0] = "y"


def _many(init: Any, predict: Any) -> None:
    for _ in range(30_000):
        predict.op.add(type="Negative", input=["y"], output=["y"])


def _no_ends(init: Any, predict: Any) -> None:
    init.op.add(type="ConstantFill")
    predict.op.add(type="Negative")


def _no_input(init: Any, predict: Any) -> None:
    predict.op.add(type="Negative", output=["y"])


def _one_name(init: Any, predict: Any) -> None:
    predict.external_output.extend(["y", "x", "w", "x"])
    predict.external_input.extend(["x", "x"])


def _names_of_markup(init: Any, predict: Any) -> None:
    name = "</script><img src=x onerror=alert(1)>\u202e\x1b[2J../../y"
    predict.op.add(type="Negative", input=["y"], output=[name])
    predict.external_output[0] = predict.name = name


def _wrong_types(init: Any, predict: Any) -> None:
    init.op[0].arg[0].CopyFrom(type(init.op[0].arg[0])(name="shape", s=b"2"))
    init.op[0].arg.add(name="values", ints=[1])


def _said(text: bytes) -> Callable[[Any, Any], None]:
    def change(init: Any, predict: Any) -> None:
        predict.arg[0].strings[0] = text

    return change


def _many_fills(init: Any, predict: Any) -> None:
    for number in range(300):
        op = init.op.add(type="ConstantFill", output=[f"w{number}"])
        _argument(op, "shape", [1 << 30])
        predict.op.add(type="Add", input=["y", f"w{number}"], output=["y"])


def _nest_of_loops(init: Any, predict: Any) -> None:
    """Return nets each of which runs the next one a million times."""
    _endless(init, predict)
    net = predict.op[-1].arg[0].n
    for _ in range(6):
        op = net.op.add(type="While", input=["go"], output=["y"])
        net = op.arg.add(name="loop_net").n
        net.op.add(type="Negative", input=["y"], output=["y"])


_CHANGES: dict[str, Callable[[Any, Any], None]] = {
    "nets 95 deep": _nested,
    "a While without end": _endless,
    "a nest of loops": _nest_of_loops,
    "a circle": _circle,
    "30,000 operators": _many,
    "operators without ends": _no_ends,
    "an operator without inputs": _no_input,
    "ends of one name": _one_name,
    "names of markup": _names_of_markup,
    "a shape of text": _wrong_types,
    "300 fills of 2^30": _many_fills,
    "an input of no end": _said(b"x:float32[2"),
    "an input of 2^70": _said(b"x:float32[1180591620717411303424]"),
    "an input of noise": _said(b"\xff\x00\x1b[31m"),
    "an input of no dtype": _said(b"x:<script>[-1]"),
}


def _tensors_of_databases() -> dict[str, bytes | str]:
    """Return nets that read the blob w from a database, or from a link in its place."""
    from convert.files.caffe2 import caffe2_pb2

    pb: Any = caffe2_pb2

    def blob(dims: list[int], part: tuple[int, int], kind: int = 1, **numbers: Any) -> bytes:
        tensor = pb.TensorProto(dims=dims, data_type=kind, name="w", **numbers)
        tensor.segment.begin, tensor.segment.end = part
        return bytes(pb.BlobProto(name="w", type="Tensor", tensor=tensor).SerializeToString())

    return {
        "chunks that leave numbers out": blob([20], (0, 4), float_data=[1.0] * 4),
        "a chunk of nothing": blob([2], (0, 0)),
        "a dim below zero": blob([-1], (0, 0)),
        "a chunk beyond the end": blob([2], (2, 4), float_data=[1.0, 2.0]),
        "bytes of 300": blob([2], (0, 2), 6, int32_data=[300, -1]),
        "a link out of the folder": "/etc/passwd",
        "a link to a device": "/dev/zero",
    }


def _folders(folder: Path) -> Iterator[Path]:
    """Write databases that contain a whole model, as Predictor files of PyTorch 1 do; keys and values follow their
    lengths.
    """
    import struct

    def record(key: bytes, value: bytes, *lengths: int) -> bytes:
        return struct.pack("<ii", *(lengths or (len(key), len(value)))) + key + value

    texts = {
        "lengths of 2^31": record(b"x", b"y", 2**31 - 1, 2**31 - 1),
        "lengths below zero": record(b"x", b"y", -1, -8),
        "a key that comes again": record(b"!!PREDICTOR_DBREADER", b"\x0a\x00") * 3,
        "no end": record(b"!!PREDICTOR_DBREADER", b"\x0a\xff"),
        "nothing": b"",
        "keys of paths": record(b"../../../x\x1b[31m", b"y"),
    }
    for name, tensor in _tensors_of_databases().items():
        path = folder / f"database {file_name(name)}"
        path.mkdir()
        init, predict = _nets()
        del init.op[:]
        load = init.op.add(type="Load", output=["w"])
        load.arg.add(name="db", s=b"weights.minidb")
        load.arg.add(name="db_type", s=b"minidb")
        (path / "init_net.pb").write_bytes(init.SerializeToString())
        (path / "predict_net.pb").write_bytes(predict.SerializeToString())
        if isinstance(tensor, str):
            (path / "weights.minidb").symlink_to(tensor)
        else:
            (path / "weights.minidb").write_bytes(record(b"w", tensor))
        yield path
    for name, content in texts.items():
        path = folder / f"predictor {file_name(name)}"
        path.mkdir()
        (path / "predictor.minidb").write_bytes(content)
        yield path


def caffe2_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each operator both in the net that makes the weights and in the net that computes."""

    def save(name: str, change: Callable[[Any, Any], None]) -> Path:
        init, predict = _nets()
        change(init, predict)
        path = folder / file_name(name)
        path.mkdir()
        (path / "init_net.pb").write_bytes(init.SerializeToString())
        (path / "predict_net.pb").write_bytes(predict.SerializeToString())
        return path

    good = save("good", lambda init, predict: None)
    for name, (kind, arguments) in _operators(canary).items():
        for place in ("init", "predict"):

            def add(init: Any, predict: Any, place: str = place, kind: str = kind, told: Any = arguments) -> None:
                net = init if place == "init" else predict
                op = net.op.add(type=kind, output=["w" if place == "init" else "extra"])
                for key, value in told.items():
                    _argument(op, key, value)

            yield Case(f"{name} in {place}", save(f"{name} in {place}", add), good=good)
    for name, change in _CHANGES.items():
        yield Case(name, save(name, change), good=good)
    for name, (kind, arguments) in _OPERATORS.items():

        def use(init: Any, predict: Any, kind: str = kind, told: Any = arguments) -> None:
            predict.arg[0].strings[0] = b"x:float32[1,2,8,2]"
            op = predict.op.add(type=kind, input=["y"], output=["y"])
            for key, value in told.items():
                _argument(op, key, value)

        yield Case(name, save(name, use), good=good)
    for path in _folders(folder):
        yield Case(path.name, path, good=good)
