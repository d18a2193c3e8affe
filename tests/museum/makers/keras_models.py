"""Models of Keras as HDF5 and as `.keras`, each with inputs and the outputs that this release computed.

    python keras_models.py OUT.zip keras|tf.keras|tf_keras [TEXT]

TEXT limits the models to those whose names contain it.
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import os
import sys
import zipfile

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from archive import Archive

ACTIVATIONS = (
    "elu",
    "selu",
    "softplus",
    "softsign",
    "relu",
    "tanh",
    "sigmoid",
    "hard_sigmoid",
    "exponential",
    "linear",
    "swish",
    "gelu",
    "softmax",
    "relu6",
    "leaky_relu",
    "silu",
    "mish",
    "hard_silu",
    "log_softmax",
)


def sequence(K, *layers):
    """Return what makes a Sequential of the layers that the functions return; the first one has its input's shape."""
    return lambda: K.models.Sequential([layer() for layer in layers])


def graph(K, call, *shapes):
    """Return what makes a functional model of inputs x0, x1, … with the shapes."""

    def make():
        inputs = [K.layers.Input(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
        return K.models.Model(inputs if len(inputs) > 1 else inputs[0], call(*inputs))

    return make


def pictures(K):
    """Return the models of pictures by name."""
    L = K.layers
    return {
        "conv": sequence(
            K,
            lambda: L.Conv2D(4, 3, padding="same", strides=2, input_shape=(9, 8, 3)),
            lambda: L.BatchNormalization(epsilon=1e-6),
            lambda: L.ReLU(6.0),
            lambda: L.GlobalAveragePooling2D(),
        ),
        "conv_dilated": sequence(
            K, lambda: L.Conv2D(4, 3, dilation_rate=2, padding="same", input_shape=(9, 8, 3)), lambda: L.MaxPooling2D(2)
        ),
        "conv_groups": sequence(K, lambda: L.Conv2D(4, 3, groups=2, input_shape=(9, 8, 4))),
        "conv_first": sequence(
            K,
            lambda: L.ZeroPadding2D(1, data_format="channels_first", input_shape=(3, 8, 7)),
            lambda: L.BatchNormalization(axis=1),
            lambda: L.Permute((2, 3, 1)),
            lambda: L.Conv2D(4, (2, 3), padding="same"),
        ),
        "conv1d_causal": sequence(K, lambda: L.Conv1D(4, 3, padding="causal", dilation_rate=2, input_shape=(9, 3))),
        "conv1d": sequence(
            K,
            lambda: L.Conv1D(4, 3, activation="relu", input_shape=(9, 3)),
            lambda: L.MaxPooling1D(2),
            lambda: L.UpSampling1D(2),
            lambda: L.Cropping1D(1),
            lambda: L.ZeroPadding1D(2),
            lambda: L.GlobalMaxPooling1D(),
        ),
        "conv3d": sequence(
            K,
            lambda: L.Conv3D(2, 2, input_shape=(5, 5, 4, 2)),
            lambda: L.AveragePooling3D(2, padding="same"),
            lambda: L.Flatten(),
        ),
        "conv3d_transposed": sequence(K, lambda: L.Conv3DTranspose(2, 2, strides=2, input_shape=(3, 3, 2, 2))),
        "separable": sequence(
            K, lambda: L.SeparableConv2D(4, 3, padding="same", input_shape=(7, 6, 3)), lambda: L.LeakyReLU(0.1)
        ),
        "separable1d": sequence(K, lambda: L.SeparableConv1D(4, 3, depth_multiplier=2, input_shape=(7, 3))),
        "depthwise": sequence(
            K, lambda: L.DepthwiseConv2D(3, input_shape=(7, 6, 3)), lambda: L.PReLU(shared_axes=[1, 2])
        ),
        "transposed": sequence(K, lambda: L.Conv2DTranspose(3, 3, strides=2, padding="same", input_shape=(4, 5, 3))),
        "transposed_padding": sequence(
            K, lambda: L.Conv2DTranspose(3, 3, strides=2, output_padding=1, input_shape=(4, 5, 3))
        ),
        "local": sequence(
            K, lambda: L.LocallyConnected2D(3, 2, input_shape=(5, 4, 2)), lambda: L.AveragePooling2D(2, padding="same")
        ),
        "local_first": sequence(
            K,
            lambda: L.LocallyConnected2D(
                3, (2, 3), strides=(2, 1), data_format="channels_first", activation="relu", input_shape=(2, 5, 6)
            ),
        ),
        "local1d": sequence(K, lambda: L.LocallyConnected1D(3, 2, input_shape=(5, 4))),
        "local1d_strided": sequence(
            K, lambda: L.LocallyConnected1D(3, 2, strides=2, use_bias=False, input_shape=(7, 4))
        ),
        "upsampling": graph(K, lambda x: L.UpSampling2D(2, interpolation="bilinear")(x), (4, 5, 3)),
        "upsampling_nearest": sequence(
            K,
            lambda: L.UpSampling2D((2, 3), input_shape=(3, 4, 2)),
            lambda: L.Cropping2D(((1, 0), (2, 1))),
            lambda: L.ZeroPadding2D(((1, 0), (2, 1))),
        ),
        "preprocessing": sequence(
            K, lambda: L.Rescaling(1 / 2.0, 0.5, input_shape=(6, 5, 3)), lambda: L.Resizing(7, 8)
        ),
        "residual": graph(
            K,
            lambda x: L.Add()(
                [L.Conv2D(3, 1)(x), L.Activation("relu")(L.BatchNormalization()(L.Conv2D(3, 3, padding="same")(x)))]
            ),
            (6, 5, 3),
        ),
        "squeeze": graph(
            K,
            lambda x: L.Multiply()(
                [x, L.Reshape((1, 1, 4))(L.Dense(4, activation="hard_sigmoid")(L.GlobalAveragePooling2D()(x)))]
            ),
            (6, 5, 4),
        ),
        "group_norm": sequence(K, lambda: L.GroupNormalization(2, input_shape=(6, 5, 4))),
    }


def sequences(K):
    """Return the recurrent models, and others of sequences, by name."""
    L = K.layers

    def masked(layer):
        return sequence(K, lambda: L.Masking(0.0, input_shape=(6, 4)), layer)

    return {
        "lstm": sequence(K, lambda: L.LSTM(5, recurrent_activation="hard_sigmoid", input_shape=(6, 4))),
        "lstm_default": sequence(
            K, lambda: L.LSTM(5, return_sequences=True, input_shape=(6, 4)), lambda: L.LSTM(3, go_backwards=True)
        ),
        "gru": sequence(K, lambda: L.GRU(5, input_shape=(6, 4))),
        "gru_after": sequence(K, lambda: L.GRU(5, reset_after=True, input_shape=(6, 4))),
        "simple_rnn": sequence(K, lambda: L.SimpleRNN(5, activation="relu", input_shape=(6, 4))),
        "rnn_cells": sequence(K, lambda: L.RNN([L.LSTMCell(4), L.GRUCell(3)], input_shape=(6, 4))),
        "stateful": sequence(K, lambda: L.LSTM(4, unroll=True, input_shape=(3, 4))),
        "masked_lstm": masked(lambda: L.LSTM(4)),
        "bidirectional": masked(lambda: L.Bidirectional(L.LSTM(5, return_sequences=True))),
        "bidirectional_gru": sequence(
            K, lambda: L.Bidirectional(L.GRU(3), merge_mode="sum", input_shape=(6, 4)), lambda: L.Dense(2)
        ),
        "masked_sum": graph(K, lambda a, b: L.LSTM(3)(L.Add()([L.Masking(0.0)(a), L.Masking(0.0)(b)])), (6, 4), (6, 4)),
        "states": graph(K, lambda x, h, c: L.LSTM(5)(x, initial_state=[h, c]), (6, 4), (5,), (5,)),
        "encoder_decoder": graph(
            K, lambda a, b: L.LSTM(4)(b, initial_state=L.LSTM(4, return_state=True)(a)[1:]), (6, 4), (5, 3)
        ),
        "conv_lstm": sequence(K, lambda: L.ConvLSTM2D(2, 3, padding="same", input_shape=(4, 5, 6, 2))),
        "conv_lstm1d": sequence(K, lambda: L.ConvLSTM1D(2, 3, padding="same", input_shape=(4, 6, 2))),
        "distributed": sequence(K, lambda: L.TimeDistributed(L.Dense(3, activation="selu"), input_shape=(6, 4))),
        "distributed_conv": sequence(
            K,
            lambda: L.TimeDistributed(L.Conv2D(2, 3), input_shape=(3, 6, 5, 2)),
            lambda: L.TimeDistributed(L.Flatten()),
            lambda: L.GRU(3),
        ),
        "embedding": sequence(
            K,
            lambda: L.Embedding(11, 4, input_length=6, mask_zero=True),
            lambda: L.SpatialDropout1D(0.2),
            lambda: L.LSTM(3),
        ),
        "repeat": sequence(
            K, lambda: L.Dense(4, input_shape=(6,)), lambda: L.RepeatVector(3), lambda: L.Permute((2, 1))
        ),
        "attention": graph(K, lambda a, b: L.MultiHeadAttention(2, 3)(a, b), (4, 6), (3, 6)),
        "dot_attention": graph(K, lambda a, b: L.Attention(use_scale=True)([a, b]), (4, 6), (3, 6)),
        "additive_attention": graph(K, lambda a, b: L.AdditiveAttention()([a, b]), (4, 6), (3, 6)),
        "cudnn_lstm": sequence(K, lambda: L.CuDNNLSTM(5, input_shape=(6, 4)), lambda: L.Dense(2)),
        "cudnn_gru": sequence(
            K, lambda: L.Bidirectional(L.CuDNNGRU(5, return_sequences=True), input_shape=(6, 4)), lambda: L.Flatten()
        ),
    }


def vectors(K):
    """Return the models of vectors by name."""
    L, M = K.layers, K.models
    made = {
        "dense": sequence(
            K, lambda: L.Dense(5, activation="hard_sigmoid", input_shape=(6,)), lambda: L.Dense(3, use_bias=False)
        ),
        "mlp": sequence(
            K,
            lambda: L.Dense(5, kernel_regularizer="l2", input_shape=(6,)),
            lambda: L.BatchNormalization(scale=False),
            lambda: L.Dropout(0.5),
            lambda: L.GaussianNoise(0.1),
            lambda: L.ActivityRegularization(0.1),
            lambda: L.Dense(3, activation="softmax"),
        ),
        "merges": graph(
            K,
            lambda a, b: L.Concatenate()(
                [
                    L.Add()([a, b]),
                    L.Subtract()([a, b]),
                    L.Multiply()([a, b]),
                    L.Average()([a, b]),
                    L.Maximum()([a, b]),
                    L.Dot(1, normalize=True)([a, b]),
                ]
            ),
            (6,),
            (6,),
        ),
        "thresholded": sequence(K, lambda: L.ThresholdedReLU(0.7, input_shape=(6,))),
        "advanced": graph(
            K,
            lambda x: L.Concatenate()([L.ELU(0.7)(x), L.Softmax()(x), L.LeakyReLU()(x), L.PReLU()(x), L.ReLU(5.0)(x)]),
            (6,),
        ),
        "relu_all": sequence(K, lambda: L.ReLU(3.0, negative_slope=0.2, threshold=0.5, input_shape=(6,))),
        "layer_norm": sequence(K, lambda: L.LayerNormalization(epsilon=0.01, input_shape=(4, 6))),
        "unit_norm": sequence(K, lambda: L.UnitNormalization(input_shape=(6,))),
        "functions": graph(K, lambda x: L.Dense(3)(L.ReLU(6.0)(1.0 - x * 2.0) / 3.0)[:, 1:], (6,)),
        "nested": graph(K, lambda x: L.Dense(2)(M.Sequential([L.Dense(4, input_shape=(6,))])(x)), (6,)),
        "shared": graph(K, lambda a, b: shared(L, L.Dense(4, activation="tanh"), a, b), (6,), (6,)),
        "two_outputs": graph(K, lambda x: [L.Dense(2, name="y0")(x), L.Dense(3, name="y1")(x)], (6,)),
        "normalization": sequence(
            K, lambda: L.Normalization(mean=[1.0, 2.0, 3.0], variance=[1.0, 4.0, 2.0], input_shape=(3,))
        ),
        "bare_input": sequence(K, lambda: L.InputLayer((6,)), lambda: L.Dense(3), lambda: L.Reshape((3, 1))),
    }
    for name in ACTIVATIONS:
        made["activation_" + name] = sequence(K, lambda name=name: L.Dense(4, activation=name, input_shape=(6,)))
    return made


def shared(L, layer, a, b):
    """Return the outputs of one layer on two inputs."""
    return L.Concatenate()([layer(a), layer(b)])


def randomize(model, drawn):
    """Give a model random weights, with variances above zero."""
    values = []
    for value, variable in zip(model.get_weights(), model.weights):  # noqa: B905 (Python 3.7 has no `strict`)
        new = np.asarray(drawn.randn(*value.shape)) * 0.7
        if "variance" in variable.name:
            new = np.abs(new) + 0.1
        values.append(new.astype(value.dtype) if np.issubdtype(value.dtype, np.floating) else value)
    model.set_weights(values)


def feeds(name, model, drawn):
    """Return inputs for a model. Masked inputs have masked steps at the end, and one in the middle."""
    if name == "embedding":
        steps = drawn.randint(1, 11, (3, 6))
        steps[1, 4:] = 0
        return [steps.astype("float32")]
    found = [(drawn.randn(3, *[int(d) for d in x.shape[1:]]) * 1.5).astype("float32") for x in model.inputs]
    for number, array in enumerate(found):
        if name in ("bidirectional", "masked_sum", "masked_lstm"):
            array[:, 4 + number :] = array[0, 2] = 0
    return found


def without_gpu(L):
    """Let cuDNN's layers return zeros: their files can be written without a GPU, but their operators cannot run."""

    def process(layer, inputs, initial_state):
        states = [state * 0 for state in initial_state]
        first = inputs[:, :, :1] * 0
        return (first + states[0][:, None] if layer.return_sequences else states[0]), states

    for name in ("CuDNNLSTM", "CuDNNGRU"):
        if hasattr(L, name):
            getattr(L, name)._process_batch = process


def on_processor(K):
    """Return the models as which this Keras loads the weights of cuDNN's layers where there is no GPU."""
    L = K.layers
    return {
        "cudnn_lstm": sequence(
            K, lambda: L.LSTM(5, recurrent_activation="sigmoid", input_shape=(6, 4)), lambda: L.Dense(2)
        ),
        "cudnn_gru": sequence(
            K,
            lambda: L.Bidirectional(
                L.GRU(5, recurrent_activation="sigmoid", reset_after=True, return_sequences=True), input_shape=(6, 4)
            ),
            lambda: L.Flatten(),
        ),
    }


def computed(keras, name, model, given, weights):
    """Return the outputs of a model; `weights` is a path for those of cuDNN's layers."""
    if name in on_processor(keras):
        model.save_weights(weights)
        model = on_processor(keras)[name]()
        model.load_weights(weights)
    made = model.predict(given if len(given) > 1 else given[0], verbose=0)
    return made if isinstance(made, (list, tuple)) else [made]


def load(which):
    """Return the module that is called Keras here."""
    if which == "tf.keras":
        from tensorflow import keras
    elif which == "tf_keras":
        import tf_keras as keras
    else:
        import keras
    return keras


def main(target, which, only=""):
    """Write the archive."""
    keras = load(which)
    without_gpu(keras.layers)
    archive = Archive(target)

    def write(name, table):
        keras.backend.clear_session()
        drawn = np.random.RandomState(0)
        model = table(keras)[name]()
        if not model.built:
            model.build((None, 6))
        randomize(model, drawn)
        given = feeds(name, model, drawn)
        outputs = computed(keras, name, model, given, archive.path("weights.h5"))
        for end in ("h5", "keras"):
            path = archive.path(name + "." + end)
            model.save(path)
            if end == "h5" or zipfile.is_zipfile(path):  # older releases write HDF5 under either name
                archive.file(path)
        archive.arrays(name, given, outputs)

    class Names:  # the tables only list their names here
        def __getattr__(self, name):
            return lambda *arguments, **options: None

    class Keras:
        layers, models = Names(), Names()

    for table in (pictures, sequences, vectors):
        for name in (name for name in table(Keras) if only in name):
            archive.attempt(name, lambda name=name, table=table: write(name, table))
    archive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
