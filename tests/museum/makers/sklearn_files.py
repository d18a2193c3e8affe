"""Estimators of scikit-learn as ONNX by this release of skl2onnx, with the outputs that they compute.

    python sklearn_files.py OUT.zip [TEXT]

TEXT limits the models to those whose names contain it.
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import sys

import numpy as np
from archive import Archive


def add(archive, stem, model, given, computed):
    """Add an ONNX model with its inputs and outputs."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    path = archive.path(stem + ".onnx")
    with open(path, "wb") as file:
        file.write(content)
    archive.file(path)
    archive.arrays(stem, given, computed)


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
        if hasattr(estimator, "predict_proba"):
            computed.append(estimator.predict_proba(given).astype("float32"))
            add(archive, name + "_maps", convert(estimator, initial_types=declared), [given], computed)
        model = convert(estimator, initial_types=declared, options={id(estimator): {"zipmap": False}})
        if all(node.op_type != "ZipMap" for node in model.graph.node):  # release 1.6 ignores the option
            add(archive, name, model, [given], computed)
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


def main(target, only=""):
    """Write the archive."""
    archive = Archive(target)
    skl2onnx(archive, only)
    archive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
