"""ONNX files as this release of an exporter writes them, with the outputs that the exported models compute.

    python onnx_files.py OUT.zip tf2onnx|keras2onnx|mxnet|paddle|cntk|boosted [--only TEXT] [--opsets N …]

TEXT limits the models to those whose names contain it. N are opsets, instead of two that fit many releases.
tf2onnx exports the graphs of tensorflow_files and, from release 1.9 on, the models of keras_models; `boosted` are trees
of XGBoost and LightGBM, exported by onnxmltools.
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import argparse

import numpy as np
from archive import Archive


def add(archive, stem, content, given, computed):
    """Add an ONNX file, or the bytes of one, with its inputs and outputs."""
    path = archive.path(stem + ".onnx")
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.SerializeToString())
    archive.file(path)
    archive.arrays(stem, given, computed)


def keras_rows(archive, only, opsets, keras, export):
    """Add the models of Keras; `export(model, opset)` returns ONNX."""
    import keras_models as made

    def write(name, table, opset):
        keras.backend.clear_session()
        drawn = np.random.RandomState(0)
        model = table(keras)[name]()
        made.randomize(model, drawn)
        given = made.feeds(name, model, drawn)
        computed = made.computed(keras, name, model, given, archive.path("weights.h5"))
        add(archive, f"keras{opset}_{name}", export(model, opset), given, computed)

    for table in (made.pictures, made.sequences, made.vectors):
        for name in table(keras):
            for opset in opsets if only in name and "cudnn" not in name else ():
                archive.attempt(f"{name} {opset}", lambda row=(name, table, opset): write(*row))


def keras2onnx(archive, only, opsets):
    """Add the models of Keras by keras2onnx."""
    import keras
    import keras2onnx as exporter

    keras_rows(archive, only, opsets, keras, lambda model, opset: exporter.convert_keras(model, target_opset=opset))


def tf2onnx(archive, only, opsets):
    """Add graphs of TensorFlow by tf2onnx, and models of Keras by its later releases."""
    import tensorflow as tf
    import tf2onnx as exporter
    from tensorflow_files import frozen, graphs, v1

    def exported(constant, opset, inputs, outputs):
        names = {"input_names": inputs, "output_names": outputs}
        if hasattr(exporter.convert, "from_graph_def"):
            return exporter.convert.from_graph_def(constant, opset=opset, **names)[0]
        constant = exporter.tfonnx.tf_optimize(inputs, outputs, constant, True)
        with v1.Graph().as_default() as graph:
            v1.import_graph_def(constant, name="")
            with v1.Session(graph=graph):
                made = exporter.tfonnx.process_tf_graph(graph, opset=opset, **names)
                return exporter.optimizer.optimize_graph(made).make_model("graph")

    def write(name, shapes, build, opset):
        with v1.Graph().as_default(), v1.Session() as session:
            constant, inputs, output, given, computed = frozen(session, name, shapes, build)
        content = exported(constant, opset, [x.name for x in inputs], [output.name])
        add(archive, f"graph{opset}_{name}", content, given, [computed])

    import tf2onnx.convert
    import tf2onnx.optimizer
    import tf2onnx.tfonnx

    for name, (shapes, build) in graphs().items():
        for opset in opsets if only in name else ():
            archive.attempt(f"{name} {opset}", lambda row=(name, shapes, build, opset): write(*row))
    if hasattr(exporter.convert, "from_keras"):
        of_keras = exporter.convert.from_keras
        keras_rows(archive, only, opsets, tf.keras, lambda model, opset: of_keras(model, opset=opset)[0])


def mxnet_networks():
    """Return networks of MXNet's Gluon by name: what makes them, and the shape of the input."""
    from mxnet.gluon import nn, rnn

    def sequence(*layers):
        def make():
            net = nn.HybridSequential()
            for layer in layers:
                net.add(layer())
            return net

        return make

    class Residual(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.body = sequence(lambda: nn.Conv2D(3, 3, padding=1), lambda: nn.BatchNorm())()

        def hybrid_forward(self, F, x):
            return F.relu(self.body(x) + x)

    class Functions(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.concat(F.slice_axis(x, axis=1, begin=0, end=3), F.sqrt(F.abs(x)), dim=1)
            y = F.broadcast_mul(F.softmax(y, axis=1), F.expand_dims(F.mean(x, axis=1), 1))
            return F.clip(F.transpose(y), -1.0, 0.3) + F.LeakyReLU(F.transpose(y), act_type="elu", slope=0.3)

    class Spatial(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.Pad(x, mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 2, 2))
            y = F.UpSampling(y, scale=2, sample_type="nearest")
            # The exporter writes knorm=1 for any.
            return F.L2Normalization(F.LRN(y, nsize=3, knorm=1.0), mode="channel")

    class Attention(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            scores = F.softmax(F.batch_dot(x, x, transpose_b=True) / 2.0)
            return F.reshape(F.batch_dot(scores, x), shape=(0, -1))

    return {
        "lenet": (
            sequence(
                lambda: nn.Conv2D(4, 3, activation="relu"),
                lambda: nn.MaxPool2D(2, 2),
                lambda: nn.BatchNorm(),
                lambda: nn.Flatten(),
                lambda: nn.Dense(5, activation="tanh"),
            ),
            (2, 3, 9, 8),
        ),
        "residual": (Residual, (2, 3, 6, 5)),
        "grouped": (
            sequence(
                lambda: nn.Conv2D(4, 3, groups=4, strides=2),
                lambda: nn.PReLU(),
                lambda: nn.AvgPool2D(2, 2, ceil_mode=True, count_include_pad=False),
                lambda: nn.GlobalAvgPool2D(),
            ),
            (2, 4, 12, 12),
        ),
        "transposed": (
            sequence(
                lambda: nn.Conv2DTranspose(4, 3, strides=2, padding=1, output_padding=1),
                lambda: nn.InstanceNorm(),
                lambda: nn.LeakyReLU(0.1),
            ),
            (2, 3, 4, 5),
        ),
        "conv1d": (sequence(lambda: nn.Conv1D(4, 3), lambda: nn.SELU(), lambda: nn.MaxPool1D(2)), (2, 3, 9)),
        "mlp": (
            sequence(
                lambda: nn.Dense(8),
                lambda: nn.LayerNorm(),
                lambda: nn.GELU(),
                lambda: nn.Dropout(0.5),
                lambda: nn.Dense(3, activation="softrelu"),
            ),
            (3, 6),
        ),
        "swish": (sequence(lambda: nn.Dense(8), lambda: nn.Swish(), lambda: nn.ELU(0.5)), (3, 6)),
        "functions": (Functions, (3, 6)),
        "spatial": (Spatial, (2, 4, 4, 5)),
        "attention": (Attention, (2, 3, 4)),
        "lstm": (sequence(lambda: rnn.LSTM(4, num_layers=2, bidirectional=True)), (5, 2, 6)),
        "gru": (sequence(lambda: rnn.GRU(4)), (5, 2, 6)),
        "rnn": (sequence(lambda: rnn.RNN(4, activation="tanh")), (5, 2, 6)),
    }


def mxnet(archive, only, opsets):
    """Add networks of Gluon by MXNet's own exporter."""
    import mxnet as mx

    export = mx.onnx.export_model if hasattr(mx, "onnx") else mx.contrib.onnx.export_model

    def write(name, make, shape):
        mx.random.seed(0)
        np.random.seed(0)
        net = make()
        net.initialize(mx.init.Normal(0.5))
        net.hybridize()
        given = (np.random.RandomState(0).randn(*shape) * 1.5).astype("float32")
        computed = net(mx.nd.array(given)).asnumpy()
        path = archive.path("net")
        net.export(path)
        target = archive.path(name + ".onnx")
        export(path + "-symbol.json", path + "-0000.params", [shape], np.float32, target)
        archive.file(target)
        archive.arrays(name, [given], [computed])

    for name, row in mxnet_networks().items():
        if only in name:
            archive.attempt(name, lambda name=name, row=row: write(name, *row))


def paddle_networks():
    """Return networks of Paddle by name: what makes them, and the shape of the input."""
    from paddle import nn

    class Functions(nn.Layer):
        def forward(self, x):
            import paddle  # forward is compiled without the variables around it
            from paddle.nn import functional as F

            y = paddle.concat([F.elu(x), F.mish(x), F.hardsigmoid(x), paddle.clip(x, -0.5, 0.5)], 1)
            return y - paddle.mean(x, 1, keepdim=True)

    class Indexing(nn.Layer):
        def forward(self, x):
            import paddle

            chosen = paddle.where(x[:, 1:4] > 0, x[:, :3], x[:, 3:] * 2)
            return chosen + paddle.topk(paddle.reshape(x, [-1, 6]), 3)[0]

    class Recurrent(nn.Layer):
        def __init__(self, kind):
            super().__init__()
            self.cells, self.last = kind(4, 3, direction="bidirect"), nn.Linear(6, 2)

        def forward(self, x):
            return self.last(self.cells(x)[0])

    class Attending(nn.Layer):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoderLayer(6, 2, 8)

        def forward(self, x):
            return self.encoder(x)

    return {
        "picture": (
            lambda: nn.Sequential(
                nn.Conv2D(3, 4, 3, stride=2, padding=1), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2, ceil_mode=True)
            ),
            (2, 3, 9, 8),
        ),
        "grouped": (
            # paddle2onnx 1.2.0 aborts the process for padding="same".
            lambda: nn.Sequential(
                nn.Conv2D(4, 4, 3, groups=4, dilation=2, padding=2), nn.Hardswish(), nn.AdaptiveAvgPool2D(1)
            ),
            (2, 4, 9, 8),
        ),
        "transposed": (
            lambda: nn.Sequential(
                nn.Conv2DTranspose(3, 4, 3, stride=2, padding=1, output_padding=1),
                nn.InstanceNorm2D(4),
                nn.LeakyReLU(0.1),
                nn.Upsample(scale_factor=2, mode="bilinear"),
            ),
            (2, 3, 4, 5),
        ),
        "shuffled": (lambda: nn.Sequential(nn.Conv2D(3, 8, 3), nn.PixelShuffle(2), nn.PReLU(2)), (2, 3, 5, 6)),
        "mlp": (
            lambda: nn.Sequential(
                nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(), nn.Linear(8, 3), nn.Softmax()
            ),
            (3, 6),
        ),
        "functions": (Functions, (3, 6)),
        "indexing": (Indexing, (3, 6)),
        "lstm": (lambda: Recurrent(nn.LSTM), (2, 5, 4)),
        "gru": (lambda: Recurrent(nn.GRU), (2, 5, 4)),
        "encoder": (Attending, (2, 4, 6)),
        "pooled": (
            lambda: nn.Sequential(nn.AvgPool2D(3, 2, padding=1, exclusive=True), nn.Pad2D([1, 2, 0, 1], "reflect")),
            (2, 3, 7, 6),
        ),
        "volume": (lambda: nn.Sequential(nn.Conv3D(2, 3, 2), nn.Softplus(), nn.MaxPool3D(2)), (2, 2, 5, 5, 4)),
    }


def paddle(archive, only, opsets):
    """Add networks of Paddle by paddle2onnx."""
    import paddle

    def write(name, make, shape, opset):
        paddle.seed(0)
        net = make()
        net.eval()
        given = (np.random.RandomState(0).randn(*shape) * 1.5).astype("float32")
        computed = net(paddle.to_tensor(given)).numpy()
        stem = f"paddle{opset}_{name}"
        path = archive.path(stem)
        spec = [paddle.static.InputSpec([None, *shape[1:]], "float32", "x0")]
        paddle.onnx.export(net, path, input_spec=spec, opset_version=opset)
        archive.file(path + ".onnx")
        archive.arrays(stem, [given], [computed])

    for name, row in paddle_networks().items():
        for opset in opsets if only in name else ():
            archive.attempt(f"{name} {opset}", lambda name=name, row=row, opset=opset: write(name, *row, opset))


def cntk_networks():
    """Return functions of CNTK by name: the shapes of their inputs without the batch, and what builds the output."""
    import cntk as C

    L = C.layers

    def weighted(*shape):
        return C.parameter(shape, init=C.glorot_uniform(seed=sum(shape)))

    def normalized(x):
        return L.BatchNormalization(map_rank=1, init_scale=0.7)(x)

    def functions(x):
        y = C.splice(C.relu(x), C.elu(x), C.softplus(x) - C.hard_sigmoid(x, 0.2, 0.5), C.clip(x, -0.5, 0.5))
        return C.reduce_mean(C.reshape(y, (4, 6)), axis=0) * C.exp(-C.abs(x[0:1]))

    return {
        "picture": (
            [(3, 9, 8)],
            L.Sequential(
                [
                    L.Convolution2D((3, 3), 4, pad=True, strides=2, activation=C.relu),
                    normalized,
                    L.MaxPooling((2, 2), strides=2, pad=True),
                    L.Dense(5, activation=C.softmax),
                ]
            ),
        ),
        "padded": (
            [(3, 9, 8)],
            L.Sequential(
                [L.Convolution2D((3, 2), 4, pad=[True, False]), C.leaky_relu, L.AveragePooling((2, 2), strides=2)]
            ),
        ),
        "grouped": ([(4, 6, 5)], lambda x: C.convolution(weighted(4, 2, 3, 3), x, auto_padding=[False], groups=2)),
        "transposed": (
            [(3, 4, 5)],
            L.Sequential(
                [L.ConvolutionTranspose2D((2, 2), 3, strides=2), lambda x: C.param_relu(weighted(3, 1, 1), x)]
            ),
        ),
        "volume": ([(2, 5, 4, 4)], L.Sequential([L.Convolution3D((2, 2, 2), 3), L.GlobalMaxPooling()])),
        "spatial": ([(4, 3, 5)], lambda x: C.depth_to_space(C.pad(x, [(0, 0), (1, 1), (2, 0)], C.REFLECT_PAD), 2)),
        "mlp": (
            [(6,)],
            L.Sequential([L.Dense(8, activation=C.tanh), L.LayerNormalization(), L.Dropout(0.5), L.Dense(3, C.selu)]),
        ),
        "functions": ([(6,)], functions),
        "merges": ([(6,), (6,)], lambda a, b: C.element_max(a, b) + a * b - C.reduce_max(C.abs(a))),
        "comparing": ([(6,)], lambda x: C.element_select(C.greater(x, 0.2), x * 2.0, C.square(x)) + C.argmax(x)),
        "products": ([(3, 4), (4, 5)], lambda a, b: C.transpose(C.times(a, b), (1, 0)) / 3.0),
        "shared": ([(6,), (6,)], lambda a, b: shared_dense(L.Dense(4), a, b)),
    }


def shared_dense(layer, a, b):
    """Return the difference of one layer's outputs for two inputs."""
    return layer(a) - layer(b)


def cntk_sequences():
    """Return functions on sequences of CNTK by name."""
    import cntk as C

    L = C.layers
    return {
        "lstm": L.Recurrence(L.LSTM(4)),
        "gru": L.Recurrence(L.GRU(4)),
        "rnn": L.Recurrence(L.RNNStep(4), go_backwards=True),
        "stacked": L.Sequential([L.Recurrence(L.LSTM(4)), L.Dense(3), L.Recurrence(L.LSTM(2))]),
        "last": L.Sequential([L.Fold(L.LSTM(4)), L.Dense(2)]),
        "bidirectional": L.Sequential(
            [(L.Recurrence(L.LSTM(3)), L.Recurrence(L.LSTM(3), go_backwards=True)), C.splice, L.Dense(2)]
        ),
    }


def cntk(archive, only, opsets):
    """Add functions by CNTK's own exporter, which writes a batch of one."""
    import cntk as C

    drawn = np.random.RandomState(0)

    def write(name, inputs, given, output):
        path = archive.path(name + ".onnx")
        output.save(path, format=C.ModelFormat.ONNX)
        computed = output.eval(dict(zip(inputs, given)))  # noqa: B905 (Python 3.6 has no `strict`)
        if isinstance(computed, list):  # an array for each sequence, which ONNX has in the second dim
            computed = np.stack(computed, 1)
        archive.file(path)
        sequences = any(value.dynamic_axes[1:] for value in inputs)
        archive.arrays(name, [x.swapaxes(0, 1) if sequences else x for x in given], [computed])

    def vectors(name, shapes, build):
        inputs = [C.input_variable(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
        given = [drawn.randn(1, *shape).astype("float32") for shape in shapes]
        write(name, inputs, given, build(*inputs))

    def steps(name, build):
        x = C.sequence.input_variable(6, name="x0")
        write(name, [x], [drawn.randn(1, 5, 6).astype("float32")], build(x))

    for name, row in cntk_networks().items():
        if only in name:
            archive.attempt(name, lambda name=name, row=row: vectors(name, *row))
    for name, build in cntk_sequences().items():
        if only in name:
            archive.attempt(name, lambda name=name, build=build: steps(name, build))


def boosted(archive, only, opsets):
    """Add boosted trees by onnxmltools."""
    import lightgbm
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from sklearn_files import samples

    def write(name, kind, model, export, options):
        x, classes, values = samples()
        two = "two" in name
        model.fit(x, values if kind == "values" else (classes > 0).astype("int64") if two else classes)
        given = x[:7]
        computed = [np.asarray(model.predict(given))]
        computed = (
            [*computed, model.predict_proba(given).astype("float32")]
            if kind == "classes"
            else [computed[0].astype("float32").reshape(-1, 1)]
        )
        made = export(model, initial_types=[("x0", FloatTensorType([None, 4]))], **options)
        add(archive, name, made, given=[given], computed=computed)

    small = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
    of_xgboost, of_lightgbm = onnxmltools.convert_xgboost, onnxmltools.convert_lightgbm
    rows = {
        "xgboost_values": ("values", xgboost.XGBRegressor(**small), of_xgboost, {}),
        "xgboost_classes": ("classes", xgboost.XGBClassifier(**small), of_xgboost, {}),
        "xgboost_two": ("classes", xgboost.XGBClassifier(**small), of_xgboost, {}),
        "lightgbm_values": ("values", lightgbm.LGBMRegressor(**small), of_lightgbm, {}),
        "lightgbm_classes": ("classes", lightgbm.LGBMClassifier(**small), of_lightgbm, {}),
        "lightgbm_two": ("classes", lightgbm.LGBMClassifier(**small), of_lightgbm, {}),
        "lightgbm_tensor": ("classes", lightgbm.LGBMClassifier(**small), of_lightgbm, {"zipmap": False}),
    }
    for name, row in rows.items():
        if only in name:
            archive.attempt(name, lambda name=name, row=row: write(name, *row))


EXPORTERS = {  # with the opsets that are asked of it
    "tf2onnx": (tf2onnx, (8, 11)),
    "keras2onnx": (keras2onnx, (9, 11)),
    "mxnet": (mxnet, ()),
    "paddle": (paddle, (9, 13)),
    "cntk": (cntk, ()),
    "boosted": (boosted, ()),
}


def main():
    """Write the archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("exporter", choices=EXPORTERS)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--opsets", type=int, nargs="+", metavar="N")
    chosen = parser.parse_args()
    write, opsets = EXPORTERS[chosen.exporter]
    archive = Archive(chosen.target)
    write(archive, chosen.only, chosen.opsets or opsets)
    archive.close()


if __name__ == "__main__":
    main()
