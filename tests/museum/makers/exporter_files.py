"""ONNX files of the exporters that do not belong to a framework, with the outputs that the exported models computed.

    python exporter_files.py OUT.zip EXPORTER [TEXT]

EXPORTER is a key of EXPORTERS. TEXT limits the models to those whose names contain it.
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import os
import sys

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from archive import Archive


def add(archive, stem, model, given, computed):
    """Add an ONNX model with its inputs and outputs."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    path = archive.path(stem + ".onnx")
    with open(path, "wb") as file:
        file.write(content)
    archive.file(path)
    archive.arrays(stem, given, computed)


def keras_networks(which, only):
    """Yield the names and tables of the models of Keras, as keras_models has them, and Keras."""
    import keras_models

    class Keras:
        class layers:
            def __getattr__(self, name):
                return lambda *arguments, **options: None

        models = layers = layers()

    keras = keras_models.load(which)
    for table in (keras_models.pictures, keras_models.sequences, keras_models.vectors):
        for name in table(Keras):
            if only in name and "cudnn" not in name:
                yield keras, name, table


def made_by_keras(keras, name, table):
    """Return a model of Keras with random weights, its inputs and its outputs."""
    import keras_models

    keras.backend.clear_session()
    drawn = np.random.RandomState(0)
    model = table(keras)[name]()
    if not model.built:
        model.build((None, 6))
    keras_models.randomize(model, drawn)
    given = keras_models.feeds(name, model, drawn)
    return model, given, keras_models.computed(keras, name, model, given, None)


def keras2onnx(archive, only):
    """Add the models of tf.keras, by keras2onnx."""
    os.environ["TF_KERAS"] = "1"
    import keras2onnx

    def write(keras, name, table):
        model, given, computed = made_by_keras(keras, name, table)
        add(archive, name, keras2onnx.convert_keras(model, name), given, computed)

    for row in keras_networks("tf.keras", only):
        archive.attempt(row[1], lambda row=row: write(*row))


def tf2onnx(archive, only):
    """Add the graphs of TensorFlow 1, and in newer releases the models of tf.keras, by tf2onnx."""
    import tensorflow_files
    import tf2onnx

    v1 = tensorflow_files.v1
    newest = max(tf2onnx.constants.OPSET_TO_IR_VERSION)

    def write_graph(name, shapes, build, opset):
        with v1.Graph().as_default(), v1.Session() as session:
            definition, _, output, given, computed = tensorflow_files.frozen(session, name, shapes, build)
        given_names = [f"x{i}:0" for i in range(len(given))]
        definition = tf2onnx.tf_loader.tf_optimize(given_names, [output.name], definition)
        with v1.Graph().as_default() as graph:
            v1.import_graph_def(definition, name="")
            with v1.Session(graph=graph):
                made = tf2onnx.tfonnx.process_tf_graph(
                    graph, opset=opset, input_names=given_names, output_names=[output.name]
                )
        model = tf2onnx.optimizer.optimize_graph(made).make_model("graph")
        add(archive, f"graph{opset}_{name}", model, given, [computed])

    def write_keras(keras, name, table, opset):
        model, given, computed = made_by_keras(keras, name, table)
        add(archive, f"keras{opset}_{name}", tf2onnx.convert.from_keras(model, opset=opset)[0], given, computed)

    for opset in (8, newest):
        for name, (shapes, build) in tensorflow_files.graphs().items():
            if only in name:
                archive.attempt(f"graph{opset}_{name}", lambda row=(name, shapes, build, opset): write_graph(*row))
    if hasattr(tf2onnx.convert, "from_keras"):
        for row in keras_networks("tf.keras", only):
            archive.attempt(f"keras{newest}_{row[1]}", lambda row=row: write_keras(*row, newest))


def samples():
    """Return samples of four features, their classes of three, and their values."""
    drawn = np.random.RandomState(0)
    x = drawn.randn(60, 4).astype("float32")
    return x, (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0.3), (x @ [1.0, -2.0, 0.5, 0.0]).astype("float32")


def estimators():
    """Return estimators of scikit-learn by name: those of classes first, then of values, then transformations."""
    from sklearn import (
        cluster,
        decomposition,
        ensemble,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    return {
        "classes": {
            "logistic": linear_model.LogisticRegression(),
            "sgd": linear_model.SGDClassifier(random_state=0),
            "tree": tree.DecisionTreeClassifier(max_depth=3),
            "forest": ensemble.RandomForestClassifier(5, max_depth=3, random_state=0),
            "gradient": ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0),
            "svc": svm.SVC(probability=True, random_state=0),
            "linear_svc": svm.LinearSVC(),
            "bayes": naive_bayes.GaussianNB(),
            "neighbors": neighbors.KNeighborsClassifier(3),
            "perceptrons": neural_network.MLPClassifier((5,), max_iter=50, random_state=0),
            "scaled": pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
        },
        "values": {
            "linear": linear_model.LinearRegression(),
            "ridge": linear_model.Ridge(),
            "tree_values": tree.DecisionTreeRegressor(max_depth=3),
            "forest_values": ensemble.RandomForestRegressor(5, max_depth=3, random_state=0),
            "gradient_values": ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0),
            "svr": svm.SVR(),
            "neighbor_values": neighbors.KNeighborsRegressor(3),
            "perceptron_values": neural_network.MLPRegressor((5,), max_iter=50, random_state=0),
        },
        "transformations": {
            "standard": preprocessing.StandardScaler(),
            "minmax": preprocessing.MinMaxScaler(),
            "robust": preprocessing.RobustScaler(),
            "normalizer": preprocessing.Normalizer(),
            "binarizer": preprocessing.Binarizer(),
            "polynomial": preprocessing.PolynomialFeatures(),
            "pca": decomposition.PCA(2),
            "kmeans": cluster.KMeans(3, random_state=0),
        },
    }


def write_estimator(archive, name, kind, estimator, convert, declared):
    """Fit an estimator and add it; classifiers a second time without the list of dictionaries that is the default."""
    x, classes, values = samples()
    estimator.fit(x, classes if kind == "classes" else values)
    given = x[:7]
    if kind == "classes":
        computed = [estimator.predict(given)]
        options = {}
        if hasattr(estimator, "predict_proba"):
            computed.append(estimator.predict_proba(given).astype("float32"))
            add(archive, name + "_maps", convert(estimator, initial_types=declared), [given], computed)
        options = {id(estimator): {"zipmap": False}}
        add(archive, name, convert(estimator, initial_types=declared, options=options), [given], computed)
        return
    made = estimator.transform(given) if kind == "transformations" else estimator.predict(given).reshape(-1, 1)
    if name == "kmeans":
        made = [estimator.predict(given), made.astype("float32")]
        add(archive, name, convert(estimator, initial_types=declared), [given], made)
        return
    add(archive, name, convert(estimator, initial_types=declared), [given], [np.asarray(made, "float32")])


def skl2onnx(archive, only):
    """Add estimators of scikit-learn."""
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    for kind, table in estimators().items():
        for name, estimator in table.items():
            if only in name:
                declared = [("x0", FloatTensorType([None, 4]))]
                row = (name, kind, estimator, skl2onnx.convert_sklearn, declared)
                archive.attempt(name, lambda row=row: write_estimator(archive, *row))


def onnxmltools(archive, only):
    """Add boosted trees of LightGBM and XGBoost."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, classes, values = samples()
    declared, given = [("x0", FloatTensorType([None, 4]))], x[:7]

    def lightgbm(name, kind, target, **options):
        import lightgbm as library

        model = getattr(library, kind)(n_estimators=5, min_child_samples=2, num_leaves=5, **options).fit(x, target)
        write(name, model, onnxmltools.convert_lightgbm)

    def xgboost(name, kind, target, **options):
        import xgboost as library

        model = getattr(library, kind)(n_estimators=5, max_depth=3, **options).fit(x, target)
        write(name, model, onnxmltools.convert_xgboost)

    def write(name, model, convert):
        if hasattr(model, "predict_proba"):
            computed = [model.predict(given), model.predict_proba(given).astype("float32")]
        else:
            computed = [model.predict(given).astype("float32").reshape(-1, 1)]
        add(archive, name, convert(model, initial_types=declared), [given], computed)

    two = (classes > 1).astype("int64")
    rows = [
        ("lightgbm_classes", lightgbm, "LGBMClassifier", classes),
        ("lightgbm_two", lightgbm, "LGBMClassifier", two),
        ("lightgbm_values", lightgbm, "LGBMRegressor", values),
        ("xgboost_classes", xgboost, "XGBClassifier", classes),
        ("xgboost_two", xgboost, "XGBClassifier", two),
        ("xgboost_values", xgboost, "XGBRegressor", values),
    ]
    for name, make, kind, target in rows:
        if only in name:
            archive.attempt(name, lambda make=make, row=(name, kind, target): make(*row))


def gluon():
    """Return networks of MXNet's Gluon by name: the network, and the shape of its input."""
    from mxnet.gluon import nn

    def sequential(*layers):
        net = nn.HybridSequential()
        net.add(*layers)
        return net

    return {
        "plain": (
            sequential(nn.Conv2D(4, 3, strides=2, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2)),
            (2, 3, 9, 8),
        ),
        "grouped": (
            sequential(nn.Conv2D(4, 3, groups=4), nn.LeakyReLU(0.1), nn.GlobalAvgPool2D(), nn.Dense(3)),
            (2, 4, 9, 8),
        ),
        "transposed": (sequential(nn.Conv2DTranspose(3, 3, strides=2, padding=1), nn.ELU()), (2, 3, 4, 5)),
        "mlp": (sequential(nn.Dense(8, activation="tanh"), nn.Dropout(0.5), nn.Dense(3)), (3, 6)),
        "normalized": (sequential(nn.Dense(8), nn.LayerNorm(), nn.GELU(), nn.Dense(3)), (3, 6)),
        "prelu": (sequential(nn.Conv2D(4, 3), nn.PReLU(), nn.AvgPool2D(2), nn.Flatten()), (2, 3, 7, 6)),
        "swish": (sequential(nn.Conv1D(4, 3), nn.Swish(), nn.SELU(), nn.GlobalMaxPool1D()), (2, 3, 7)),
        "volume": (sequential(nn.Conv3D(2, 2), nn.Activation("softrelu"), nn.MaxPool3D(2)), (2, 2, 5, 5, 4)),
        "ceiled": (sequential(nn.MaxPool2D(2, ceil_mode=True), nn.InstanceNorm()), (2, 3, 5, 7)),
    }


def mxnet(archive, only):
    """Add networks of Gluon."""
    import mxnet as mx

    def write(name, net, shape):
        mx.random.seed(0)
        net.initialize(mx.init.Normal(0.5))
        net.hybridize()
        x = mx.nd.array(np.random.RandomState(0).randn(*shape).astype("float32"))
        computed = net(x).asnumpy()
        prefix = archive.path("net")
        net.export(prefix)
        path = archive.path(name + ".onnx")
        exporter = mx.onnx if hasattr(mx, "onnx") else mx.contrib.onnx
        exporter.export_model(prefix + "-symbol.json", prefix + "-0000.params", [shape], np.float32, path)
        archive.file(path)
        archive.arrays(name, [x.asnumpy()], [computed])

    for name, (net, shape) in gluon().items():
        if only in name:
            archive.attempt(name, lambda row=(name, net, shape): write(*row))


def paddle(archive, only):
    """Add networks of Paddle, by paddle2onnx."""
    import paddle
    from paddle import nn

    class Cells(nn.Layer):
        def __init__(self, kind):
            super().__init__()
            self.cells, self.last = kind(4, 3, direction="bidirect"), nn.Linear(6, 2)

        def forward(self, x):
            return self.last(self.cells(x)[0])

    networks = {
        "plain": (
            nn.Sequential(nn.Conv2D(3, 4, 3, stride=2, padding=1), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2)),
            (2, 3, 9, 8),
        ),
        "grouped": (
            nn.Sequential(nn.Conv2D(4, 4, 3, groups=4), nn.Hardswish(), nn.AdaptiveAvgPool2D(1), nn.Conv2D(4, 3, 1)),
            (2, 4, 9, 8),
        ),
        "transposed": (
            nn.Sequential(
                nn.Conv2DTranspose(3, 4, 3, stride=2, padding=1), nn.LeakyReLU(), nn.Upsample(scale_factor=2)
            ),
            (2, 3, 4, 5),
        ),
        "bilinear": (nn.Sequential(nn.Conv2D(3, 2, 1), nn.Upsample([7, 9], mode="bilinear")), (2, 3, 4, 5)),
        "mlp": (nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3), nn.Softmax()), (3, 6)),
        "lstm": (Cells(nn.LSTM), (2, 5, 4)),
        "gru": (Cells(nn.GRU), (2, 5, 4)),
        "encoder": (nn.TransformerEncoderLayer(6, 2, 8), (2, 4, 6)),
        "prelu": (nn.Sequential(nn.Conv2D(3, 4, 3), nn.PReLU(4), nn.AvgPool2D(2, ceil_mode=True)), (2, 3, 8, 7)),
    }

    def write(name, net, shape):
        net.eval()
        x = np.random.RandomState(0).randn(*shape).astype("float32")
        path = archive.path(name)
        spec = paddle.static.InputSpec([None, *shape[1:]], "float32", "x0")
        paddle.onnx.export(net, path, input_spec=[spec], opset_version=11)
        archive.file(path + ".onnx")
        archive.arrays(name, [x], [net(paddle.to_tensor(x)).numpy()])

    paddle.seed(0)
    for name, (net, shape) in networks.items():
        if only in name:
            archive.attempt(name, lambda row=(name, net, shape): write(*row))


EXPORTERS = {
    "keras2onnx": keras2onnx,
    "tf2onnx": tf2onnx,
    "skl2onnx": skl2onnx,
    "onnxmltools": onnxmltools,
    "mxnet": mxnet,
    "paddle": paddle,
}
"""The exporters by name: what adds their files to an archive."""


def main(target, exporter, only=""):
    """Write the archive."""
    archive = Archive(target)
    EXPORTERS[exporter](archive, only)
    archive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
