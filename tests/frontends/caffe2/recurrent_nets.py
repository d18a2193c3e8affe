"""Write recurrent networks as Caffe2's `rnn_cell` and `gru_cell` build them, with their outputs; needs a real Caffe2.

    python recurrent_nets.py FOLDER

Each network is a folder of two nets and data.npz, which has `0/in/NAME` and `0/out/NAME` of three sizes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from caffe2.python import core, gru_cell, model_helper, rnn_cell, workspace

SIZES = ((5, 2), (1, 1), (7, 3))
LSTM: dict[str, dict[str, Any]] = {
    "lstm": {},
    "for_training": {"forward_only": False},
    "forgetting": {"forget_bias": 1.0},
    "dropped": {"drop_states": True},
}


def network(kind: str) -> tuple[Any, list[Any]]:
    """Return the helper with the net, and its output blobs."""
    helper = model_helper.ModelHelper(name=kind)
    x, lengths, h, c, h2, c2 = helper.net.AddExternalInputs("x", "lengths", "h", "c", "h2", "c2")
    if kind == "gru":
        found = gru_cell.GRU(helper, x, lengths, (h,), 3, 4, "cell", forward_only=True, forget_bias=1.5)
    elif kind == "basic":
        found = rnn_cell.BasicRNN(helper, x, lengths, (h,), 3, 4, "cell", forward_only=True, activation="tanh")
    elif kind == "layers":
        found = rnn_cell.LSTM(helper, x, lengths, (h, c, h2, c2), 3, [4, 4], "cell", forward_only=True)
    else:
        options = {"forward_only": True, **LSTM[kind]}
        found = rnn_cell.LSTM(helper, x, lengths, (h, c), 3, 4, "cell", **options)
    return helper, [blob for blob in found if blob is not None]


def write(kind: str, folder: Path) -> None:
    """Write one network."""
    workspace.ResetWorkspace()
    helper, outputs = network(kind)
    workspace.RunNetOnce(helper.param_init_net)
    rng, init, net, data = np.random.default_rng(1), core.Net("init"), helper.net.Proto(), {}
    read = {name for op in net.op for name in op.input}
    inputs = [n for n in ("x", "lengths", "h", "c", "h2", "c2") if n in read]
    weights = [str(p) for p in helper.params if str(p) in read]
    for name in weights:
        content = rng.normal(scale=0.5, size=workspace.FetchBlob(name).shape).astype(np.float32)
        workspace.FeedBlob(name, content)
        init.GivenTensorFill([], [name], shape=content.shape, values=content.ravel().tolist())
    for place, (time, batch) in enumerate(SIZES):
        for name in inputs:
            shape = (time, batch, 3) if name == "x" else (1, batch, 4)
            array = rng.normal(size=shape).astype(np.float32)
            if name == "lengths":
                array = rng.integers(1, time + 1, batch).astype(np.int32)
            workspace.FeedBlob(name, array)
            data[f"{place}/in/{name}"] = array
        workspace.RunNetOnce(helper.net)
        data.update({f"{place}/out/{o}": workspace.FetchBlob(o) for o in map(str, outputs)})
    del net.external_input[:], net.external_output[:]
    net.external_input.extend([*inputs, *weights])
    net.external_output.extend(map(str, outputs))
    folder.mkdir()
    (folder / "init_net.pb").write_bytes(init.Proto().SerializeToString())
    (folder / "predict_net.pb").write_bytes(net.SerializeToString())
    np.savez(folder / "data.npz", **data)


if __name__ == "__main__":
    for kind in (*LSTM, "layers", "gru", "basic"):
        write(kind, Path(sys.argv[1]) / f"{kind}.caffe2")
