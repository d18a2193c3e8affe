"""Serialise a net: init_net.pb, predict_net.pb and their text forms, one weight in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from google.protobuf import text_format

from convert import caffe2_pb2 as pb
from convert.errors import Unsupported
from convert.netdef import INPUTS_ARGUMENT, OUTPUTS_ARGUMENT
from convert.report import Report
from convert.tensors import dtype_name

from .fills import fills
from .net import Argument, Blob, Net

# Protocol Buffers readers refuse messages past 2 GiB; each operator of init_net adds its names and dims.
_LARGEST = 2**31 - 2**20
# Weights in text take about 12 bytes a number; past this size nobody reads them.
_LARGEST_TEXT = 1 << 20


def write_folder(net: Net, folder: Path, report: Report) -> None:
    """Write the files of `net` into the new folder `folder`."""
    folder.mkdir(parents=True)
    weights = weights_of(net)
    name = folder.stem
    predict = predict_net(net, weights, name)
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    (folder / "predict_net.pbtxt").write_text(text_format.MessageToString(predict))
    written = 0
    with (folder / "init_net.pb").open("wb") as file:
        # Serialised messages one after the other are one message: repeated fields append.
        written += file.write(_init_frame(weights, name).SerializeToString())
        for blob in weights:
            assert blob.content is not None
            written += sum(fill.write(file) for fill in fills(blob.name, blob.content))
    if written <= _LARGEST_TEXT:
        init = pb.NetDef.FromString((folder / "init_net.pb").read_bytes())
        (folder / "init_net.pbtxt").write_text(text_format.MessageToString(init))
    else:
        report.note(f"init_net.pb has {written:,} bytes and got no text form (1 MiB at most)")


def check_size(net: Net) -> None:
    """Raise `Unsupported` if the weights do not fit one Protocol Buffers message."""
    total = sum(blob.content.nbytes + 256 for blob in weights_of(net) if blob.content is not None)
    if total > _LARGEST:
        raise Unsupported(f"the weights take {total:,} bytes, and init_net.pb holds 2 GiB at most")


def weights_of(net: Net) -> list[Blob]:
    """The constants that operators (or outputs) of the net read, in order of their first use."""
    used = dict.fromkeys(blob for op in net.ops for blob in op.reads())
    return [blob for blob in used if blob.content is not None]


def predict_net(net: Net, weights: Sequence[Blob], name: str) -> pb.NetDef:
    """The NetDef that computes: data inputs first in external_input, because the runtime binds them by position."""
    message = _net_def(net, name)
    message.external_input.extend(blob.name for blob in (*net.inputs, *weights))
    message.external_output.extend(blob.name for blob in net.outputs)
    message.arg.add(name=INPUTS_ARGUMENT, strings=[_described(blob) for blob in net.inputs])
    message.arg.add(name=OUTPUTS_ARGUMENT, strings=[_described(blob) for blob in net.outputs])
    return message


def _init_frame(weights: Sequence[Blob], name: str) -> pb.NetDef:
    return pb.NetDef(name=f"{name}_init", external_output=[blob.name for blob in weights])


def _net_def(net: Net, name: str) -> pb.NetDef:
    """Operators without names: a global pool whose name holds "Pool" or starts with "Conv" fails at run time."""
    message = pb.NetDef(name=name)
    for op in net.ops:
        made = message.op.add(type=op.type, input=[b.name for b in op.inputs], output=[b.name for b in op.outputs])
        for key, value in op.args.items():
            _set(made.arg.add(name=key), value)
    return message


def _set(argument: pb.Argument, value: Argument) -> None:
    if isinstance(value, Net):
        argument.n.CopyFrom(_net_def(value, ""))
        inner = {b for op in value.ops for b in op.outputs}
        read = dict.fromkeys(b for op in value.ops for b in op.reads() if b not in inner)
        argument.n.external_input.extend(b.name for b in read)
        argument.n.external_output.extend(b.name for b in value.outputs)
    elif isinstance(value, (bool, int)):
        argument.i = int(value)
    elif isinstance(value, float):
        argument.f = value
    elif isinstance(value, str):
        argument.s = value.encode()
    elif any(isinstance(v, float) for v in value):
        argument.floats.extend(value)  # type: ignore[arg-type]
    elif any(isinstance(v, str) for v in value):
        argument.strings.extend(v.encode() for v in value)  # type: ignore[union-attr]
    else:
        argument.ints.extend(int(v) for v in value)


def _described(blob: Blob) -> bytes:
    dims = "" if blob.shape is None else "[" + ",".join("?" if d is None else str(d) for d in blob.shape) + "]"
    return f"{blob.name}:{dtype_name(blob.dtype)}{dims}".encode()
