"""Reads the model in a Caffe2 folder, in any of its layouts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from convert.errors import BadInput, Unsupported
from convert.files.caffe2 import caffe2_pb2
from convert.files.caffe2.minidb import META, read_minidb
from convert.files.caffe2.netdef import Model, Net, net_of, read_net
from convert.files.folders import check_files

pb: Any = caffe2_pb2

PREDICTOR = "predictor.minidb"
"""The file of the layout `metanet`: a MetaNetDef and the weights, as Caffe2's predictor_exporter writes them."""


def read_folder(folder: Path) -> Model:
    """Return the model in a folder: two nets with the databases that they load, or one predictor database.

    Raises `BadInput` for broken files and for databases outside the folder, and `UnsafeInput` for links to such.
    """
    if (folder / PREDICTOR).is_file():
        return _predictor(folder / PREDICTOR)
    init, predict = (read_net(folder / name) for name in ("init_net.pb", "predict_net.pb"))
    blobs: dict[str, np.ndarray] = {}
    for op in init.ops:
        if op.type == "Load":
            name = op.args.get("db", "")
            if op.args.get("db_type") != "minidb":
                raise Unsupported(f"a Load from a database of type {op.args.get('db_type')!r}; only minidb is read")
            if not isinstance(name, str) or Path(name).name != name:
                raise BadInput(f"{folder} loads {name!r}, which is not a file in it")
            check_files(folder, folder, [name])
            loaded = _tensors(read_minidb(folder / name))
            if missing := [o for o in op.outputs if o not in loaded]:
                raise BadInput(f"{folder / name} does not hold the blob {missing[0]!r}")
            blobs |= {o: loaded[o] for o in op.outputs}
    kept = tuple(op for op in init.ops if op.type != "Load")
    return Model(replace(init, ops=kept), predict, blobs).with_outputs()


def predictor_nets(path: Path) -> dict[str, Net]:
    """Return every net in a predictor database by its key (`PREDICT_NET_TYPE`).

    Raises `BadInput` for a broken database.
    """
    return {entry.key: net_of(entry.value, str(path)) for entry in _meta_net(path, read_minidb(path)).nets}


def _predictor(path: Path) -> Model:
    blobs = read_minidb(path)
    meta = _meta_net(path, blobs)
    nets = {entry.key.split("_NET_TYPE")[0]: entry.value for entry in meta.nets}
    if "PREDICT" not in nets:
        raise BadInput(f"{path} holds no predict net")
    return Model(Net("init", (), (), ()), net_of(nets["PREDICT"], str(path)), _tensors(blobs)).with_outputs()


def _meta_net(path: Path, blobs: dict[str, np.ndarray | bytes]) -> Any:
    content = blobs.get(META)
    if not isinstance(content, bytes):
        raise BadInput(f"{path} holds no MetaNetDef")
    try:
        return pb.MetaNetDef.FromString(content)
    except DecodeError as error:
        raise BadInput(f"the MetaNetDef in {path} is broken: {error}") from None


def _tensors(blobs: dict[str, np.ndarray | bytes]) -> dict[str, np.ndarray]:
    return {name: content for name, content in blobs.items() if isinstance(content, np.ndarray)}
