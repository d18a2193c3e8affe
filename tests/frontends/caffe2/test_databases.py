"""Databases of weights: every number is in the file once, and the file belongs to the model."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import BadInput, ConvertError, UnsafeInput
from convert.files.caffe2 import caffe2_pb2
from convert.files.caffe2.folder import read_folder
from convert.files.caffe2.minidb import read_minidb
from convert.files.sniff import sniff

pb: Any = caffe2_pb2


def record(dims: list[int], begin: int, end: int, kind: int = 1, **numbers: Any) -> bytes:
    """Return a chunk of the blob w, with its key."""
    tensor = pb.TensorProto(dims=dims, data_type=kind, name="w", **numbers)
    tensor.segment.begin, tensor.segment.end = begin, end
    value = pb.BlobProto(name="w", type="Tensor", tensor=tensor).SerializeToString()
    return struct.pack("<ii", 1, len(value)) + b"w" + bytes(value)


def test_chunks_are_joined(tmp_path: Path) -> None:
    chunks = [record([4], 2, 4, float_data=[3.0, 4.0]), record([4], 0, 2, float_data=[1.0, 2.0])]
    (tmp_path / "w").write_bytes(b"".join(chunks))
    np.testing.assert_array_equal(read_minidb(tmp_path / "w")["w"], np.array([1, 2, 3, 4], np.float32))


DAMAGED = {
    "numbers in no chunk": [record([2000], 0, 4, float_data=[1.0] * 4)] * 1 + [record([2000], 1996, 2000,
                                                                                  float_data=[1.0] * 4)],
    "numbers at the end": [record([20], 0, 4, float_data=[1.0] * 4)],
    "numbers twice": [record([4], 0, 2, float_data=[1.0] * 2), record([4], 1, 4, float_data=[1.0] * 3)],
    "a dim below zero": [record([-1], 0, 0)],
    "two dims below zero": [record([-2, -2], 0, 4, float_data=[1.0] * 4)],
    "bytes of 300": [record([2], 0, 2, 6, int32_data=[300, -1])],
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_numbers_that_are_not_there_are_no_weights(name: str, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"".join(DAMAGED[name]) + bytes(8) * 4000)
    with pytest.raises(BadInput, match="'w'"):
        read_minidb(tmp_path / "w")


@pytest.mark.parametrize("name", ["weights.minidb", "weights"])
def test_links_out_of_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    init, predict = pb.NetDef(name="init"), pb.NetDef(name="predict")
    load = init.op.add(type="Load", output=["w"])
    load.arg.add(name="db", s=name.encode())
    load.arg.add(name="db_type", s=b"minidb")
    predict.op.add(type="Add", input=["x", "w"], output=["y"])
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    (tmp_path / "w").write_bytes(record([1], 0, 1, float_data=[1.0]))
    (folder / name).symlink_to(tmp_path / "w")
    for read in (sniff, read_folder) if name.endswith(".minidb") else (read_folder,):
        with pytest.raises(UnsafeInput, match=r"outside of the model's folder"):
            read(folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(ConvertError):
        read_folder(folder)
    (folder / name).unlink()
    (folder / name).write_bytes((tmp_path / "w").read_bytes())
    assert sniff(folder) == "caffe2"
    np.testing.assert_array_equal(read_folder(folder).blobs["w"], np.ones(1, np.float32))
