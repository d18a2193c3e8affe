"""Serializes a net: init_net.pb, predict_net.pb and their text forms, with one weight in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from google.protobuf import text_format

from convert.files.caffe2 import caffe2_pb2 as pb
from convert.files.caffe2.folder import PREDICTOR
from convert.files.caffe2.minidb import META
from convert.files.caffe2.netdef import INPUTS_ARGUMENT, NUMBERS, OUTPUTS_ARGUMENT
from convert.graph.tensors import dtype_name
from convert.outcome.report import Report

from ..blob import Blob
from ..net import Argument, Net
from .fills import Fill, copy_to_device, fill_operators
from .minidb import write_tensor, write_text

# Protocol Buffers readers reject messages above 2 GiB; each operator of init_net adds its names and dims.
_LARGEST = 2**31 - 2**20
# Weights in text take about 12 bytes a number; larger files are not written, because nobody reads them.
_LARGEST_TEXT = 1 << 20

DATABASE = "weights.minidb"
"""The file of weights that do not fit one message."""

_READER = "!!PREDICTOR_DBREADER"

_DIM_NAME = re.compile(r"[A-Za-z_]\w*(?:\+\w+)*", re.ASCII)
_LONGEST = 100
"""Characters of the name of a dim that is spelled in another way."""


def write_folder(net: Net, folder: Path, report: Report, layout: str = "nets") -> None:
    """Write the files of `net` into the new folder `folder`.

    - `nets`: init_net and predict_net, and a database if the weights do not fit one message.
    - `mobile`: the same, but init_net also fills the inputs, as loaders on mobile devices expect.
    - `metanet`: one database with a MetaNetDef and the weights, as Caffe2's predictor_exporter loads it.
    """
    folder.mkdir(parents=True)
    weights = weights_of(net)
    predict = predict_net(net, weights, folder.stem)
    (folder / "predict_net.pbtxt").write_text(text_format.MessageToString(predict))
    if layout == "metanet":
        _write_predictor(net, predict, weights, folder)
        return
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    if sum(blob.content.nbytes + 256 for blob in weights if blob.content is not None) > _LARGEST:
        init = _write_database(weights, folder, report)
    else:
        init = _write_init_fills(weights, folder, report)
    if layout == "mobile":
        init += _write_fills(folder, [Fill(_input_fill(blob)) for blob in net.inputs])
    if init <= _LARGEST_TEXT:
        message = pb.NetDef.FromString((folder / "init_net.pb").read_bytes())
        (folder / "init_net.pbtxt").write_text(text_format.MessageToString(message))


def _write_init_fills(weights: Sequence[Blob], folder: Path, report: Report) -> int:
    """Write init_net with the weights in it; return its size in bytes."""
    # Concatenated serialized messages are one message: repeated fields append.
    (folder / "init_net.pb").write_bytes(_init_frame(weights, folder.stem).SerializeToString())
    written = 0
    for blob in weights:
        assert blob.content is not None
        written += _write_fills(folder, fill_operators(blob.name, blob.content, blob.device))
    if written > _LARGEST_TEXT:
        report.note(f"init_net.pb has {written:,} bytes and got no text form (1 MiB at most)", code="no-text-form")
    return written


def _write_database(weights: Sequence[Blob], folder: Path, report: Report) -> int:
    """Write the weights into a database, and an init_net that loads them; return the size of init_net in bytes."""
    with (folder / DATABASE).open("wb") as file:
        for blob in weights:
            assert blob.content is not None
            write_tensor(file, _plain_name(blob), blob.content)
    frame = _init_frame(weights, folder.stem)
    load = frame.op.add(type="Load", output=[_plain_name(blob) for blob in weights])
    for key, value in (("db", DATABASE), ("db_type", "minidb"), ("absolute_path", 0)):
        _set_argument(load.arg.add(name=key), value)
    frame.op.extend(copy_to_device(blob.name, blob.device) for blob in weights if blob.device)
    (folder / "init_net.pb").write_bytes(frame.SerializeToString())
    report.note(
        f"the weights do not fit init_net.pb; it loads them from {DATABASE} in the workspace's root folder",
        code="weights-beside",
    )
    return frame.ByteSize()


def _write_fills(folder: Path, made: Iterable[Fill]) -> int:
    with (folder / "init_net.pb").open("ab") as file:
        return sum(fill.write(file) for fill in made)


def _input_fill(blob: Blob) -> pb.OperatorDef:
    """Return a fill of an input blob: zeros of its shape, with 1 for each dynamic dim."""
    op = pb.OperatorDef(type="ConstantFill", output=[blob.name])
    sizes = [d if isinstance(d, int) else 1 for d in blob.shape or ()]
    op.arg.add(name="shape", ints=sizes)
    op.arg.add(name="dtype", i=NUMBERS[blob.dtype])
    if blob.dtype.is_floating_point():
        op.arg.add(name="value", f=0.0)
    else:
        op.arg.add(name="value", i=0)
    return op


def _write_predictor(net: Net, predict: pb.NetDef, weights: Sequence[Blob], folder: Path) -> None:
    """Write one database: the MetaNetDef first, then the blobs, with the nets that predictor_exporter expects."""
    parameters = [_plain_name(blob) for blob in weights]
    load = pb.NetDef(name="global-init", external_input=[_READER], external_output=parameters)
    load.op.add(type="Load", input=[_READER], output=parameters)
    load.op.extend(copy_to_device(blob.name, blob.device) for blob in weights if blob.device)
    ready = pb.NetDef(name="predict-init", op=[_input_fill(blob) for blob in net.inputs])
    ready.external_output.extend(blob.name for blob in net.inputs)
    meta = pb.MetaNetDef()
    for key, value in (("PREDICT_INIT", ready), ("GLOBAL_INIT", load), ("PREDICT", predict)):
        meta.nets.add(key=f"{key}_NET_TYPE", value=value)
    ends = {"PARAMETERS": parameters, "INPUTS": predict.external_input[: len(net.inputs)]}
    for key, names in {**ends, "OUTPUTS": predict.external_output}.items():
        meta.blobs.add(key=f"{key}_BLOB_TYPE", value=names)
    with (folder / PREDICTOR).open("wb") as file:
        write_text(file, META, meta.SerializeToString())
        for blob in weights:
            assert blob.content is not None
            write_tensor(file, _plain_name(blob), blob.content)


def _plain_name(blob: Blob) -> str:
    """Return the name of a weight before it is moved to its device."""
    return f"{blob.name}.cpu" if blob.device else blob.name


def weights_of(net: Net) -> list[Blob]:
    """Return the constants that operators (or outputs) of the net read, in order of first use."""
    used = dict.fromkeys(blob for op in net.ops for blob in op.reads())
    return [blob for blob in used if blob.content is not None]


def predict_net(net: Net, weights: Sequence[Blob], name: str) -> pb.NetDef:
    """Return the NetDef that computes. Data inputs come first in external_input, because the runtime binds them by
    position.
    """
    message = _net_def(net, name)
    message.external_input.extend(blob.name for blob in (*net.inputs, *weights))
    message.external_output.extend(blob.name for blob in net.outputs)
    names = _dim_names(net.inputs)
    message.arg.add(name=INPUTS_ARGUMENT, strings=[_blob_description(blob, names) for blob in net.inputs])
    message.arg.add(name=OUTPUTS_ARGUMENT, strings=[_blob_description(blob, names) for blob in net.outputs])
    return message


def _init_frame(weights: Sequence[Blob], name: str) -> pb.NetDef:
    return pb.NetDef(name=f"{name}_init", external_output=[blob.name for blob in weights])


def _net_def(net: Net, name: str) -> pb.NetDef:
    """Return the NetDef, with operators that have no name: the runtime fails for a global pool whose name contains
    "Pool" or starts with "Conv".
    """
    message = pb.NetDef(name=name)
    for op in net.ops:
        made = message.op.add(type=op.type, input=[b.name for b in op.inputs], output=[b.name for b in op.outputs])
        for key, value in op.args.items():
            _set_argument(made.arg.add(name=key), value)
        if op.engine:
            made.engine = op.engine
        if op.device:
            made.device_option.device_type = op.device
    return message


def _set_argument(argument: pb.Argument, value: Argument) -> None:
    if isinstance(value, Net):
        argument.n.CopyFrom(_net_def(value, ""))
        # A loop reads its carried blobs before it overwrites them, so they are external inputs too.
        made: set[Blob] = set()
        read: dict[Blob, None] = {}
        for op in value.ops:
            read.update(dict.fromkeys(b for b in op.reads() if b not in made))
            made.update(op.outputs)
        argument.n.external_input.extend(b.name for b in read)
        argument.n.external_output.extend(b.name for b in value.outputs)
    elif isinstance(value, (bool, int)):
        argument.i = int(value)
    elif isinstance(value, float):
        argument.f = value
    elif isinstance(value, str):
        argument.s = value.encode()
    elif any(isinstance(v, float) for v in value):
        argument.floats.extend(value)
    elif any(isinstance(v, str) for v in value):
        argument.strings.extend(v.encode() for v in value)  # type: ignore[union-attr]
    else:
        argument.ints.extend(int(v) for v in value)


def _dim_names(inputs: Iterable[Blob]) -> dict[str, str]:
    """Return for the name of each dim of the inputs the name in a description, which can be read again.

    In a description, `a,b` would be two dims, `1` a size, and `batch size` an error.
    """
    names = dict.fromkeys(d for blob in inputs for d in blob.shape or () if isinstance(d, str))
    found = {name: name for name in names if _DIM_NAME.fullmatch(name)}
    for name in names:
        if name not in found:
            spelled = re.sub(r"\W", "_", f"dim_{name}", flags=re.ASCII)[:_LONGEST]
            while spelled in found.values():
                spelled += "_"
            found[name] = spelled
    return found


def _blob_description(blob: Blob, names: Mapping[str, str]) -> bytes:
    """Return `NAME:DTYPE[DIMS]`; an output may have computed dims, such as `3*height`."""

    def described(dim: int | str | None) -> str:
        text = str(dim)
        return names.get(text, "?" if dim is None or re.search(r"[][,:]", text) else text)

    dims = "" if blob.shape is None else "[" + ",".join(map(described, blob.shape)) + "]"
    return f"{blob.name}:{dtype_name(blob.dtype)}{dims}".encode()
