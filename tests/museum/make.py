"""Write small models by a released Keras, each with inputs and the outputs that this release computed.

    python make.py OUT.zip [keras|tf.keras]

Run it with the interpreter of an environment that holds the release; it needs nothing of this project:

| release | Python | packages | which |
|---|---|---|---|
| Keras 2.2.4 | 3.7 | tensorflow==1.15.5 keras==2.2.4 h5py==2.10 protobuf==3.20.3 | keras |
| Keras 2.3.1 | 3.7 | tensorflow==1.15.5 keras==2.3.1 h5py==2.10 protobuf==3.20.3 | keras |
| TensorFlow 1.15.5 | 3.7 | the same | tf.keras |
| TensorFlow 2.15.0 | 3.11 | tensorflow==2.15.0 keras==2.15.0 | tf.keras |

The archive has NAME.h5, NAME.keras where the release knows archives, and NAME.npz with x0 … and y0 …. A model that the
release cannot make is left out, and said. `test_museum.py` reads the archives in fixtures/museum, and those in the
folder that CONVERT_MUSEUM names.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from typing import Any, Callable  # noqa: UP035 (Python 3.7)

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def models(L: Any, M: Any) -> dict[str, Callable[[], Any]]:
    """Return what makes each model by name; the first layer of a Sequential says its shape."""

    def sequence(*layers: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: M.Sequential([layer() for layer in layers])

    def graph(call: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
        def make() -> Any:
            ends = [L.Input(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
            return M.Model(ends if len(ends) > 1 else ends[0], call(*ends))

        return make

    def masked(layer: Callable[[], Any]) -> Callable[[], Any]:
        return sequence(lambda: L.Masking(0.0, input_shape=(6, 4)), layer)

    return {
        "dense": sequence(lambda: L.Dense(5, activation="hard_sigmoid", input_shape=(6,)), lambda: L.Dense(3)),
        "conv": sequence(
            lambda: L.Conv2D(4, 3, padding="same", strides=2, input_shape=(9, 8, 3)),
            lambda: L.BatchNormalization(epsilon=1e-6),
            lambda: L.ReLU(6.0),
            lambda: L.GlobalAveragePooling2D(),
        ),
        "separable": sequence(
            lambda: L.SeparableConv2D(4, 3, padding="same", input_shape=(7, 6, 3)), lambda: L.LeakyReLU(0.1)
        ),
        "depthwise": sequence(lambda: L.DepthwiseConv2D(3, input_shape=(7, 6, 3)), lambda: L.PReLU(shared_axes=[1, 2])),
        "transposed": sequence(lambda: L.Conv2DTranspose(3, 3, strides=2, padding="same", input_shape=(4, 5, 3))),
        "upsampling": graph(lambda x: L.UpSampling2D(2, interpolation="bilinear")(x), (4, 5, 3)),
        "lstm": sequence(lambda: L.LSTM(5, recurrent_activation="hard_sigmoid", input_shape=(6, 4))),
        "gru": sequence(lambda: L.GRU(5, input_shape=(6, 4))),
        "gru_after": sequence(lambda: L.GRU(5, reset_after=True, input_shape=(6, 4))),
        "bidirectional": masked(lambda: L.Bidirectional(L.LSTM(5, return_sequences=True))),
        "masked_sum": graph(lambda a, b: L.LSTM(3)(L.Add()([L.Masking(0.0)(a), L.Masking(0.0)(b)])), (6, 4), (6, 4)),
        "states": graph(lambda x, h, c: L.LSTM(5)(x, initial_state=[h, c]), (6, 4), (5,), (5,)),
        "thresholded": sequence(lambda: L.ThresholdedReLU(0.7, input_shape=(6,))),
        "distributed": sequence(lambda: L.TimeDistributed(L.Dense(3, activation="selu"), input_shape=(6, 4))),
        "attention": graph(lambda a, b: L.MultiHeadAttention(2, 3)(a, b), (4, 6), (3, 6)),
        "functions": graph(lambda x: L.Dense(3)(L.ReLU(6.0)(1.0 - x * 2.0) / 3.0)[:, 1:], (6,)),
        "nested": graph(lambda x: L.Dense(2)(M.Sequential([L.Dense(4, input_shape=(6,))])(x)), (6,)),
    }


def randomize(model: Any, drawn: Any) -> None:
    """Give a model random weights, with variances above zero."""
    values = []
    for value, variable in zip(model.get_weights(), model.weights):  # noqa: B905 (Python 3.7 has no `strict`)
        new = drawn.randn(*value.shape) * 0.7
        values.append((np.abs(new) + 0.1 if "variance" in variable.name else new).astype(value.dtype))
    model.set_weights(values)


def feeds(name: str, model: Any, drawn: Any) -> list[Any]:
    """Return inputs for a model; of masked ones the steps at the end, and one in the middle, are masked."""
    found = [(drawn.randn(3, *[int(d) for d in x.shape[1:]]) * 1.5).astype("float32") for x in model.inputs]
    for number, array in enumerate(found):
        if name in ("bidirectional", "masked_sum"):
            array[:, 4 + number :] = array[0, 2] = 0
    return found


def main(target: str, which: str) -> None:
    """Write the archive."""
    if which == "keras":
        import keras
    else:
        from tensorflow import keras
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as folder:
        for name, make in models(keras.layers, keras.models).items():
            keras.backend.clear_session()
            drawn = np.random.RandomState(0)
            try:
                model = make()
                randomize(model, drawn)
                given = feeds(name, model, drawn)
                made = model.predict(given if len(given) > 1 else given[0], verbose=0)
            except (AttributeError, TypeError, ValueError) as error:
                print(f"left out {name}: {str(error)[:100]!r}")
                continue
            for end in ("h5", "keras"):
                path = os.path.join(folder, f"{name}.{end}")
                model.save(path)
                if end == "h5" or zipfile.is_zipfile(path):  # older releases write HDF5 under either name
                    archive.write(path, os.path.basename(path))
            arrays = {f"x{i}": array for i, array in enumerate(given)}
            arrays["y0"] = np.asarray(made)
            content = io.BytesIO()
            np.savez(content, **arrays)
            archive.writestr(name + ".npz", content.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:])
