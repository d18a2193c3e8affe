"""Writes the variables of a SavedModel shard by shard, with at most one shard in memory.

`tf.saved_model.save` needs all variables filled at once. It gets variables without content and writes their names and
positions into the checkpoint; this module then adds the content.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2, trackable_object_graph_pb2
from tensorflow.python.saved_model import fingerprinting_utils

from convert.activity import advance

from ..constants import Constant, Permutation

_SHARD = 16 << 20
"""Bytes per shard, unless that gives more than `_MOST` shards."""

_MOST = 32

Named = tuple[str, tuple[Constant, Permutation]]
"""A variable's key in the checkpoint, and its content."""


def write_variables(folder: Path, attribute: str, contents: Sequence[tuple[Constant, Permutation]]) -> None:
    """Add `contents` to the checkpoint of the SavedModel in `folder`.

    They belong to the variables that the root object lists under `attribute`, in the same order.
    """
    if contents:
        _merge(folder / "variables", attribute, contents)
    fingerprinting_utils.write_fingerprint(str(folder))
    _derive_identifier(folder / "fingerprint.pb")


def _derive_identifier(path: Path) -> None:
    """Replace the fingerprint's random identifier by one derived from its hashes."""
    mark = fingerprint_pb2.FingerprintDef.FromString(path.read_bytes())
    mark.ClearField("uuid")
    mark.uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, mark.SerializeToString(deterministic=True).hex()).int)
    path.write_bytes(mark.SerializeToString(deterministic=True))


def _merge(folder: Path, attribute: str, contents: Sequence[tuple[Constant, Permutation]]) -> None:
    keys = _keys(folder / "variables", attribute)
    parts = folder / "parts"
    parts.mkdir()
    for file in folder.glob("variables.*"):
        file.rename(parts / f"0000{file.suffix}")
    written = [str(parts / "0000")]
    done, size = 0, sum(constant.tensor.nbytes for constant, _ in contents)
    for shard in _shards(list(zip(keys, contents, strict=True))):
        written.append(str(parts / f"{len(written):04d}"))
        _save(written[-1], shard)
        done += sum(constant.tensor.nbytes for _, (constant, _) in shard)
        advance(done, size)
    merged = str(folder / "variables")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=written, destination_prefix=merged, delete_old_dirs=True)


def _save(prefix: str, shard: Sequence[Named]) -> None:
    names = [key for key, _ in shard]
    tensors = [tf.constant(constant.permuted(perm), constant.dtype) for _, (constant, perm) in shard]
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)


def _keys(prefix: Path, attribute: str) -> list[str]:
    """Return the checkpoint keys of the variables that the root object lists under `attribute`."""
    content = tf.train.load_checkpoint(str(prefix)).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(content).nodes
    (listed,) = [child.node_id for child in nodes[0].children if child.local_name == attribute]
    children = {int(child.local_name): nodes[child.node_id] for child in nodes[listed].children}
    return [children[i].attributes[0].checkpoint_key for i in range(len(children))]


def _shards(contents: Sequence[Named]) -> Iterator[list[Named]]:
    """Yield groups of variables that fit a shard; each has at least one."""
    sizes = [constant.tensor.nbytes for _, (constant, _) in contents]
    most = max(_SHARD, sum(sizes) // _MOST)
    shard: list[Named] = []
    taken = 0
    for named, size in zip(contents, sizes, strict=True):
        if shard and taken + size > most:
            yield shard
            shard, taken = [], 0
        shard.append(named)
        taken += size
    if shard:
        yield shard
