"""Caffe2 nets as Caffe2's own exporters write them, with the outputs that Caffe2 computes.

    python caffe2_files.py OUT.zip [TEXT]

TEXT limits the models to those whose names contain it. Each network is written three times: as two nets by
mobile_exporter, as a database by predictor_exporter, and as ONNX by caffe2.python.onnx.frontend. The files that
torch.onnx writes are translated to nets by caffe2.python.onnx.backend.
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import io
import os
import sys

import numpy as np
from archive import Archive
from caffe2.python import brew, core, model_helper, workspace
from caffe2.python.predictor import mobile_exporter, predictor_exporter


def networks():
    """Return the networks by name: what adds the operators and returns the output, and the shape of the input."""

    def plain(m):
        y = brew.conv(m, "x0", "conv", 3, 4, 3, stride=2, pad=1)
        y = brew.relu(m, brew.spatial_bn(m, y, "norm", 4, epsilon=1e-3, is_test=True), "relu")
        y = brew.max_pool(m, y, "pool", kernel=2, stride=2)
        return brew.softmax(m, brew.fc(m, y, "last", 16, 5), "y0")

    def grouped(m):
        y = brew.group_conv(m, "x0", "conv", 4, 4, 3, group=4)
        y = brew.lrn(m, brew.relu(m, y, y), "lrn", size=3, alpha=0.1, beta=0.75, bias=1.0)
        return m.net.AveragePool(y, "y0", global_pooling=True)

    def transposed(m):
        y = brew.conv_transpose(m, "x0", "up", 3, 4, 3, stride=2, pad=1, adj=1)
        return m.net.ResizeNearest(brew.relu(m, y, "relu"), "y0", width_scale=2.0, height_scale=2.0)

    def last(m):
        y = m.net.NCHW2NHWC("x0", "last")
        return m.net.NHWC2NCHW(m.net.LeakyRelu(y, "leaky", alpha=0.2), "y0")

    def mlp(m):
        y = brew.tanh(m, brew.fc(m, "x0", "first", 6, 8), "tanh")
        return m.net.Sigmoid(brew.fc(m, y, "second", 8, 3), "y0")

    def shuffled(m):
        y = m.net.ChannelShuffle(brew.conv(m, "x0", "conv", 3, 8, 1), "shuffled", group=2, kernel=1)
        return m.net.Elu(y, "y0", alpha=0.5)

    def merged(m):
        parts = m.net.Split("x0", ["left", "right"], axis=1)
        y, _ = m.net.Concat([m.net.Sum(parts, "sum"), m.net.Mul(parts, "mul")], ["joined", "sizes"], axis=1)
        return m.net.Clip(m.net.Transpose(y, "swapped", axes=[1, 0]), "y0", min=-1.0, max=1.0)

    def normalized(m):
        y = m.net.LayerNorm("x0", ["norm", "mean", "std"], axis=1, epsilon=1e-3)[0]
        return m.net.Swish(m.net.ReduceBackMean(y, "reduced", num_reduce_dim=1), "y0")

    return {
        "plain": (plain, (2, 3, 8, 8)),
        "grouped": (grouped, (2, 4, 7, 6)),
        "transposed": (transposed, (2, 3, 4, 5)),
        "last": (last, (2, 3, 4, 5)),
        "mlp": (mlp, (3, 6)),
        "shuffled": (shuffled, (2, 3, 4, 5)),
        "merged": (merged, (3, 6)),
        "normalized": (normalized, (3, 6)),
    }


def randomize(m, drawn):
    """Give the parameters random values, with variances above zero."""
    for blob in map(str, m.GetAllParams()):
        value = workspace.FetchBlob(blob)
        new = drawn.randn(*value.shape).astype("float32") * 0.5
        workspace.FeedBlob(blob, np.abs(new) + 0.1 if "riv" in blob else new)


def add_nets(archive, stem, init, predict, given, computed):
    """Add a folder with two nets."""
    folder = archive.path(stem + ".caffe2")
    os.mkdir(folder)
    for name, net in (("init_net", init), ("predict_net", predict)):
        with open(os.path.join(folder, name + ".pb"), "wb") as file:
            file.write(net.SerializeToString())
    archive.file(folder)
    archive.arrays(stem, [given], computed)


def write(archive, name, build, shape):
    """Add a network in the three ways."""
    workspace.ResetWorkspace()
    drawn = np.random.RandomState(0)
    given = drawn.randn(*shape).astype("float32")
    m = model_helper.ModelHelper(name, arg_scope={"order": "NCHW"})
    output = build(m)
    m.net.AddExternalOutput(output)
    workspace.RunNetOnce(m.param_init_net)
    randomize(m, drawn)
    workspace.FeedBlob("x0", given)
    workspace.RunNetOnce(m.net)
    computed = workspace.FetchBlob(str(output))

    def outputs(predict):  # mobile_exporter finds more outputs than the network names
        return [workspace.FetchBlob(blob) for blob in predict.external_output]

    def mobile():
        init, predict = mobile_exporter.Export(workspace, m.net, m.GetAllParams())
        add_nets(archive, "mobile_" + name, init, predict, given, outputs(predict))

    def database():
        meta = predictor_exporter.PredictorExportMeta(
            predict_net=m.net.Proto(),
            parameters=[str(b) for b in m.GetAllParams()],
            inputs=["x0"],
            outputs=[str(output)],
        )
        folder = archive.path("database_" + name + ".caffe2")
        os.mkdir(folder)
        predictor_exporter.save_to_db("minidb", os.path.join(folder, "predictor.minidb"), meta)
        archive.file(folder)
        archive.arrays("database_" + name, [given], [computed])

    def to_onnx():
        from caffe2.python.onnx.frontend import caffe2_net_to_onnx_model

        init, predict = mobile_exporter.Export(workspace, m.net, m.GetAllParams())
        info = {"x0": (1, given.shape)}
        model = caffe2_net_to_onnx_model(predict, init, info)
        path = archive.path("onnx_" + name + ".onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        archive.file(path)
        archive.arrays("onnx_" + name, [given], [workspace.FetchBlob(value.name) for value in model.graph.output])

    for make in (mobile, database, to_onnx):
        archive.attempt(make.__name__ + "_" + name, make)


def write_translated(archive, name, make, x):
    """Add a network of PyTorch, exported to ONNX and translated to nets."""
    import onnx
    import torch
    from caffe2.python.onnx import backend

    torch.manual_seed(0)
    module, content = make().eval(), io.BytesIO()
    named = {"opset_version": 9, "input_names": ["x0"], "output_names": ["y0"]}
    torch.onnx.export(module, x, content, keep_initializers_as_inputs=True, **named)
    model = onnx.load_from_string(content.getvalue())
    computed = backend.prepare(model).run([x.numpy()])[0]
    init, predict = backend.Caffe2Backend.onnx_graph_to_caffe2_net(model)
    add_nets(archive, "translated_" + name, init, predict, x.numpy(), [computed])


def main(target, only=""):
    """Write the archive."""
    import pytorch_files

    archive = Archive(target)
    core.GlobalInit(["caffe2", "--caffe2_log_level=2"])
    rows = [(name, write, (name, *row)) for name, row in networks().items()]
    rows += [(name, write_translated, (name, *row)) for name, row in pytorch_files.networks().items()]
    for name, make, row in rows:
        if only in name:
            archive.attempt(name, lambda make=make, row=row: make(archive, *row))
    archive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
