"""Profiles: the same net for other kernels of the runtime, which are faster on machines that have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx_ir as ir

from ..blob import Blob
from ..net import Net, Op

IDEEP = 5
"""The number of the device in `caffe2.DeviceTypeProto`."""

# Operators that are worth a copy to IDEEP's blocked layout, and operators that stay there if their input is already in
# it.
_HEAVY = frozenset({"Conv", "ConvFusion"})
_LIGHT = frozenset({"Relu", "MaxPool", "AveragePool", "Sum"})
_RELU, _SUM, _SUM_RELU = 1, 2, 3


def apply_profile(net: Net, profile: str) -> None:
    """Change the operators of `net` for `profile`: `nnpack` or `ideep` (`plain` and `aten` change nothing).

    - nnpack: convolutions that NNPACK supports (2-D, stride and dilation 1, one group) select it by their engine.
    - ideep: convolutions, fused with following additions and ReLUs, and the operators between them run by oneDNN in its
      own layout. Blobs are copied at the boundary, weights once in init_net.
    """
    if profile == "nnpack":
        for op in net.ops:
            if op.type == "Conv" and _is_for_nnpack(op):
                op.engine = "NNPACK"
    elif profile == "ideep":
        _fuse(net)
        _move_to_ideep(net)


def _is_for_nnpack(op: Op) -> bool:
    kernels, pads, strides, dilations = (_integers(op, name) for name in ("kernels", "pads", "strides", "dilations"))
    ones = [1] * len(kernels)
    plain = strides == dilations == ones
    narrow = all(p < k for p, k in zip(pads, kernels * 2, strict=False))
    return plain and narrow and len(kernels) == 2 and op.args["group"] == 1


def _integers(op: Op, name: str) -> list[Any]:
    value = op.args[name]
    assert isinstance(value, Sequence)
    return list(value)


# -- fusion -------------------------------------------------------------------------------------------------------


def _fuse(net: Net) -> None:
    """Fuse Conv → Relu, Conv → Add and Conv → Add → Relu into one ConvFusion, at the position of the last operator."""
    for op in list(net.ops):
        if op.type == "Conv" and _is_image(op.outputs[0]):
            _fuse_one(net, op)


def _fuse_one(net: Net, conv: Op) -> None:
    after = _only_reader(net, conv.outputs[0])
    if after is None:
        return
    if after.type == "Relu":
        _replace(net, [conv, after], Op("ConvFusion", conv.inputs, after.outputs, {**conv.args, "fusion_type": _RELU}))
    elif after.type == "Add" and (shortcut := _shortcut(net, conv, after)) is not None:
        relu = _only_reader(net, after.outputs[0])
        ends = relu if relu is not None and relu.type == "Relu" else after
        if ends.outputs[0] in net.outputs:
            return  # the fused operator would write to the name of the shortcut
        kind = _SUM if ends is after else _SUM_RELU
        # IDEEP overwrites the shortcut with the sum, so nodes that read the sum read the shortcut's blob.
        fused = Op("ConvFusion", [*conv.inputs, shortcut], [shortcut], {**conv.args, "fusion_type": kind})
        _replace(net, [conv, after] if ends is after else [conv, after, ends], fused)
        for op in net.ops:
            op.inputs = [shortcut if x is ends.outputs[0] else x for x in op.inputs]


def _shortcut(net: Net, conv: Op, add: Op) -> Blob | None:
    """Return the other operand of an addition if it may be overwritten: it has the same shape, is created in this net,
    and is not read later.
    """
    others = [x for x in add.inputs if x is not conv.outputs[0]]
    if not others:
        return None
    (other,) = others
    if other.shape is None or None in other.shape or other.shape != conv.outputs[0].shape:
        return None
    made = any(other in op.outputs for op in net.ops if op.type != "Copy")
    place = net.ops.index(add)
    later = any(other in op.reads() for op in net.ops[place + 1 :])
    return other if made and not later and other not in conv.inputs and other not in net.outputs else None


def _replace(net: Net, old: Sequence[Op], new: Op) -> None:
    net.ops[net.ops.index(old[-1])] = new
    net.ops = [op for op in net.ops if all(op is not o for o in old[:-1])]


def _only_reader(net: Net, blob: Blob) -> Op | None:
    readers = [op for op in net.ops if blob in list(op.reads())]
    return readers[0] if len(readers) == 1 and blob not in net.outputs and readers[0].inputs.count(blob) == 1 else None


def _is_image(blob: Blob) -> bool:
    return blob.dtype == ir.DataType.FLOAT and blob.shape is not None and len(blob.shape) == 4


# -- devices ------------------------------------------------------------------------------------------------------


class _DeviceCopies:
    """The device of each blob, and its copy on the other device."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.ops: list[Op] = []
        self.there: set[Blob] = set()
        self.copies: dict[Blob, Blob] = {}

    def on_ideep(self, blob: Blob) -> Blob:
        """Return `blob` in IDEEP's memory."""
        if blob in self.there:
            return blob
        if blob not in self.copies:
            copy = Blob(self.net.unique(f"{blob.name}.ideep"), blob.dtype, blob.shape, blob.content)
            self.copies[blob] = copy
            if blob.content is None:
                self.ops.append(Op("CopyCPUToIDEEP", [blob], [copy], {}, device=IDEEP))
            else:
                copy.device = IDEEP
        return self.copies[blob]

    def on_cpu(self, blob: Blob) -> Blob:
        """Return `blob` in plain memory."""
        if blob not in self.there:
            return blob
        if blob not in self.copies:
            name = self.net.unique(f"{blob.name}.cpu")
            if blob in self.net.outputs:
                blob.name, name = self.net.unique(f"{blob.name}.ideep"), blob.name
            self.copies[blob] = Blob(name, blob.dtype, blob.shape)
            self.ops.append(Op("CopyIDEEPToCPU", [blob], [self.copies[blob]], {}, device=IDEEP))
        return self.copies[blob]

    def write(self, op: Op, device: int) -> None:
        """Append `op`; its outputs are on `device` from now on, and copies of their previous content are stale."""
        op.device = device
        self.ops.append(op)
        for blob in op.outputs:
            self.copies.pop(blob, None)
            (self.there.add if device else self.there.discard)(blob)


def _move_to_ideep(net: Net) -> None:
    places = _DeviceCopies(net)
    inner = {
        blob for op in net.ops for value in op.args.values() if isinstance(value, Net) for blob in _read_blobs(value)
    }
    for op in net.ops:
        images = all(map(_is_image, op.outputs)) and not inner.intersection(op.outputs)
        near = any(x in places.there for x in op.inputs)
        if images and (op.type in _HEAVY or (near and _has_ideep_kernel(op))):
            if op.type == "Add":
                op.type = "Sum"
            op.inputs = [places.on_ideep(x) for x in op.inputs]
            places.write(op, IDEEP)
        else:
            op.inputs = [places.on_cpu(x) for x in op.inputs]
            places.write(op, 0)
    net.outputs = [places.on_cpu(x) for x in net.outputs]
    net.ops = places.ops


def _has_ideep_kernel(op: Op) -> bool:
    """Return whether IDEEP has the operator with the same meaning; additions need one known shape."""
    if op.type == "Add":
        shapes = [x.shape for x in op.inputs]
        return shapes[0] is not None and None not in shapes[0] and shapes[0] == shapes[1]
    return op.type in _LIGHT


def _read_blobs(net: Net) -> Iterable[Blob]:
    for op in net.ops:
        yield from op.reads()
    yield from net.outputs
