"""Writes the variables of a SavedModel shard by shard, so that memory never holds more than one shard of them.

`tf.saved_model.save` would want every variable filled at once. It is given variables without content, whose names and
places it writes into the checkpoint; the content is added to that checkpoint here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.saved_model import fingerprinting_utils

from .constants import Constant, Permutation

_SHARD = 32 << 20  # bytes


def write_variables(folder: Path, attribute: str, contents: Sequence[tuple[Constant, Permutation]]) -> None:
    """Add `contents` to the checkpoint of the SavedModel in `folder`.

    They are what the variables hold that its root lists under `attribute`, in the list's order.
    """
    if contents:
        _merge(folder / "variables", attribute, contents)
    fingerprinting_utils.write_fingerprint(str(folder))


def _merge(folder: Path, attribute: str, contents: Sequence[tuple[Constant, Permutation]]) -> None:
    keys = _keys(folder / "variables", attribute)
    parts = folder / "parts"
    parts.mkdir()
    for file in folder.glob("variables.*"):
        file.rename(parts / f"0000{file.suffix}")
    written = [str(parts / "0000")]
    for names, tensors in _shards(keys, contents):
        written.append(str(parts / f"{len(written):04d}"))
        tf.raw_ops.SaveV2(prefix=written[-1], tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
    merged = str(folder / "variables")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=written, destination_prefix=merged, delete_old_dirs=True)


def _keys(prefix: Path, attribute: str) -> list[str]:
    """What the checkpoint calls the variables that the root object lists under `attribute`."""
    content = tf.train.load_checkpoint(str(prefix)).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(content).nodes
    (listed,) = [child.node_id for child in nodes[0].children if child.local_name == attribute]
    children = {int(child.local_name): nodes[child.node_id] for child in nodes[listed].children}
    return [children[i].attributes[0].checkpoint_key for i in range(len(children))]


def _shards(
    keys: Sequence[str], contents: Sequence[tuple[Constant, Permutation]]
) -> Iterator[tuple[list[str], list[tf.Tensor]]]:
    """The names and content of as many variables at a time as a shard takes, and of one at least."""
    names: list[str] = []
    tensors: list[tf.Tensor] = []
    size = 0
    for key, (constant, perm) in zip(keys, contents, strict=True):
        if names and size + constant.tensor.nbytes > _SHARD:
            yield names, tensors
            names, tensors, size = [], [], 0
        names.append(key)
        tensors.append(tf.constant(constant.permuted(perm), constant.dtype))
        size += constant.tensor.nbytes
    if names:
        yield names, tensors
