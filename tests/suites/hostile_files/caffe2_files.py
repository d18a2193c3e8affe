"""Caffe2 nets that call Python or reach for files, nest without end, or fill more than there is."""

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


def _argument(op: Any, name: str, value: Any) -> None:
    arg = op.arg.add(name=name)
    if isinstance(value, bytes):
        arg.s = value
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


def caffe2_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Each operator in the net that makes the weights, and in the one that computes."""

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
    for name, change in {"nets 95 deep": _nested, "a While without end": _endless, "a circle": _circle,
                         "30,000 operators": _many}.items():  # fmt: skip
        yield Case(name, save(name, change), good=good)
