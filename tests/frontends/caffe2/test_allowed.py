"""Caffe2 nets that do more than compute are refused before Caffe2 sees them, for source and target alike."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.backends.caffe2.writer.minidb import write_text
from convert.frontends.caffe2.runner import runner
from convert.frontends.caffe2.runner.allowed import ALLOWED, REFUSED, check_nets

from convert.errors import UnsafeInput
from convert.files.caffe2 import caffe2_pb2
from convert.files.caffe2.folder import PREDICTOR
from convert.files.caffe2.minidb import META
from convert.request.options import Options
from convert.request.source import Source

pb: Any = caffe2_pb2

HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "Save": ("Save", {"db": b"/tmp/x", "db_type": b"minidb", "absolute_path": 1}),
    "CreateDB": ("CreateDB", {"db": b"x", "db_type": b"minidb"}),
    "Python": ("Python", {"token": b"x"}),
    "ATen": ("ATen", {"operator": b"from_file"}),
    "Crash": ("Crash", {}),
    "a store": ("FileStoreHandlerCreate", {"path": b"/tmp/x"}),
    "a net as text": ("RecurrentNetwork", {"step_net": b'op { type: "Save" }'}),
    "a net that is missing": ("RecurrentNetwork", {}),
    "no operator of Caffe2": ("Nobody", {}),
    "a file of prints": ("Print", {"to_file": 1}),
    "an absolute database": ("Load", {"db": b"/tmp/x", "db_type": b"minidb", "absolute_path": 1}),
    "a database elsewhere": ("Load", {"db": b"../x", "db_type": b"minidb"}),
    "another kind of database": ("Load", {"db": b"x", "db_type": b"lmdb"}),
    "several databases": ("Load", {"db": b"x", "db_type": b"minidb", "dbs": b"/tmp/x"}),
    "a link": ("Load", {"db": b"link", "db_type": b"minidb"}),
}
HARMLESS: dict[str, tuple[str, dict[str, Any]]] = {
    "Print": ("Print", {"to_file": 0}),
    "its own database": ("Load", {"db": b"weights.minidb", "db_type": b"minidb", "absolute_path": 0}),
    "Relu": ("Relu", {}),
    "what convert writes": ("ATen", {"operator": b"cumsum"}),
}


def net(operator: str = "", arguments: dict[str, Any] | None = None) -> Any:
    message = pb.NetDef(name="net", external_input=["x"], external_output=["y"])
    message.op.add(type="Relu", input=["x"], output=["y"])
    if operator:
        op = message.op.add(type=operator, output=["z"])
        for name, value in (arguments or {}).items():
            op.arg.add(name=name, **{"s" if isinstance(value, bytes) else "i": value})
    return message


def nested(inner: Any) -> Any:
    message = net()
    message.op.add(type="If", input=["x"], output=["z"]).arg.add(name="then_net").n.CopyFrom(inner)
    return message


def write(folder: Path, init: Any, predict: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    if not (folder / "link").is_symlink():
        (folder / "link").symlink_to("/etc/passwd")
    return folder


def write_predictor(folder: Path, init: Any) -> Path:
    folder.mkdir()
    (folder / "link").symlink_to("/etc/passwd")
    meta = pb.MetaNetDef()
    for key, value in (("GLOBAL_INIT_NET_TYPE", init), ("PREDICT_NET_TYPE", net())):
        meta.nets.add(key=key, value=value)
    with (folder / PREDICTOR).open("wb") as file:
        write_text(file, META, meta.SerializeToString())
    return folder


@pytest.mark.parametrize("case", HOSTILE)
def test_what_does_more_than_compute_is_refused(tmp_path: Path, case: str) -> None:
    evil = net(*HOSTILE[case])
    folders = [
        write(tmp_path / "init", evil, net()), write(tmp_path / "predict", net(), evil),
        write(tmp_path / "nested", net(), nested(nested(evil))), write_predictor(tmp_path / "predictor", evil),
    ]  # fmt: skip
    for folder in folders:
        with pytest.raises(UnsafeInput, match=HOSTILE[case][0]):
            check_nets(folder)


@pytest.mark.parametrize("case", HARMLESS)
def test_what_computes_is_not(tmp_path: Path, case: str) -> None:
    check_nets(write(tmp_path / "m", net(*HARMLESS[case]), nested(net(*HARMLESS[case]))))
    check_nets(write_predictor(tmp_path / "predictor", net(*HARMLESS[case])))


def test_the_runner_asks_for_source_and_target(tmp_path: Path) -> None:
    source = Source("caffe2", write(tmp_path / "m", net("Save"), net("Python")))
    feeds = [{"x": np.zeros(3, np.float32)}]
    with pytest.raises(UnsafeInput, match=r"(?s)Save.*Python"):
        runner.run(source, feeds, precision="float32", options=Options())
    with pytest.raises(UnsafeInput, match=r"(?s)Save.*Python"):
        runner.run_as_used(source, feeds, Options())


@pytest.mark.skipif(bool(runner.available()), reason="no Caffe2 here")
def test_the_lists_name_every_operator_of_caffe2() -> None:
    """A new operator must be reviewed, and then allowed or refused."""
    code = "import json; from caffe2.python import workspace; print(json.dumps(list(workspace.RegisteredOperators())))"
    command = [os.environ[runner.VARIABLE], "-I", "-c", code]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert {name.partition("_ENGINE_")[0] for name in told} <= ALLOWED | REFUSED
    assert not ALLOWED & REFUSED
