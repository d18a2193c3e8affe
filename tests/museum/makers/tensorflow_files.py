"""SavedModels, frozen graphs and TensorFlow Lite files, as this release of TensorFlow 1 or 2 writes them.

    python tensorflow_files.py OUT.zip [TEXT]

TEXT limits the models to those whose names contain it.
Inputs are called x0, x1, …, and outputs y0, y1, …, wherever the release lets the program choose.
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import os
import sys

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from archive import Archive

ONE = int(tf.__version__.split(".")[0]) == 1
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
v1 = tf.compat.v1 if hasattr(tf, "compat") and hasattr(tf.compat, "v1") else tf


def weights(*shape):
    """Return random float32 weights that depend on the shape only."""
    return (np.random.RandomState(sum(shape)).randn(*shape) * 0.5).astype("float32")


def graphs():
    """Return the graphs of TensorFlow 1 by name: the shapes of their inputs, and what builds their outputs."""

    def variable(*shape):
        return v1.get_variable(f"w{len(v1.global_variables())}", initializer=weights(*shape))

    def normalized(x, training):
        channels = int(x.shape[-1])
        made = [variable(channels) for _ in range(2)]
        return v1.nn.fused_batch_norm(
            x, made[0], made[1], mean=weights(channels), variance=np.abs(weights(channels)) + 0.1, is_training=training
        )

    def network(x):
        y = v1.nn.conv2d(x, variable(3, 3, 3, 4), strides=[1, 2, 2, 1], padding="SAME")
        y = v1.nn.relu6(normalized(y, False)[0])
        y = v1.nn.depthwise_conv2d(y, variable(3, 3, 4, 1), [1, 1, 1, 1], "SAME")
        y = v1.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        return v1.matmul(v1.reduce_mean(y, [1, 2]), variable(4, 5))

    def recurrent(cell):
        return lambda x: v1.nn.dynamic_rnn(cell(), x, dtype=tf.float32)[0]

    def loop(x):
        return v1.while_loop(
            lambda i, y: i < 4, lambda i, y: (i + 1, v1.tanh(v1.matmul(y, weights(6, 6)))), [tf.constant(0), x]
        )[1]

    def counted(x):
        steps = v1.shape(x)[1]
        start = (tf.constant(0), v1.zeros_like(x[:, 0]))
        return v1.while_loop(lambda i, y: i < steps, lambda i, y: (i + 1, y * 0.5 + x[:, i]), start)[1]

    rnn = v1.nn.rnn_cell if hasattr(v1.nn, "rnn_cell") else None
    made = {
        "network": ([(2, 9, 8, 3)], network),
        "dilated": (
            [(2, 9, 8, 3)],
            lambda x: v1.nn.convolution(x, variable(3, 3, 3, 4), padding="SAME", dilation_rate=[2, 2]),
        ),
        "deconvolution": (
            [(2, 4, 5, 3)],
            lambda x: v1.nn.conv2d_transpose(x, variable(3, 3, 2, 3), [2, 8, 10, 2], [1, 2, 2, 1], "SAME"),
        ),
        "normalized_end": ([(2, 5, 4, 3)], lambda x: normalized(x, False)[0]),
        "resized": ([(2, 5, 4, 3)], lambda x: v1.image.resize_bilinear(x, [7, 9], align_corners=True)),
        "resized_nearest": ([(2, 5, 4, 3)], lambda x: v1.image.resize_nearest_neighbor(x, [10, 8])),
        "cond": (
            [(3, 6)],
            lambda x: v1.cond(v1.reduce_sum(x) > 0, lambda: v1.matmul(x, weights(6, 6)), lambda: x - 1.0),
        ),
        "loop": ([(3, 6)], loop),
        "counted": ([(3, 5, 6)], counted),
        "strided": ([(3, 6, 5)], lambda x: x[:, ::2, -1]),
        "lrn": ([(2, 4, 4, 6)], lambda x: v1.nn.lrn(x, 2, bias=1.0, alpha=0.1, beta=0.5)),
        "space": ([(2, 4, 6, 3)], lambda x: v1.depth_to_space(v1.space_to_depth(v1.nn.elu(x), 2), 2)),
        "top": ([(3, 6)], lambda x: v1.nn.top_k(x, 2)[0]),
        "one_hot": ([(3, 6)], lambda x: v1.one_hot(v1.argmax(x, 1), 6) * x),
        "batch_matmul": ([(2, 3, 4), (2, 5, 4)], lambda a, b: v1.matmul(a, b, transpose_b=True)),
        "einsum": ([(2, 3, 4), (2, 5, 4)], lambda a, b: v1.einsum("bij,bkj->bik", a, b)),
        "split": ([(3, 6)], lambda x: v1.concat(v1.split(x, 3, 1)[::-1], 1)),
        "moments": ([(3, 6)], lambda x: (x - v1.nn.moments(x, [1], keep_dims=True)[0]) ** 2),
        "tiled": ([(2, 3)], lambda x: v1.tile(v1.expand_dims(x, 1), [1, 2, 1]) + v1.cast(v1.shape(x)[0], tf.float32)),
        "gathered": ([(3, 6)], lambda x: v1.gather(v1.nn.softmax(x), [2, 0, 5], axis=1)),
    }
    if rnn and RELEASE < (2, 16):
        made["lstm"] = ([(3, 5, 6)], recurrent(lambda: rnn.LSTMCell(4)))
        made["gru"] = ([(3, 5, 6)], recurrent(lambda: rnn.GRUCell(4)))
        made["basic_lstm"] = ([(3, 5, 6)], recurrent(lambda: rnn.MultiRNNCell([rnn.BasicLSTMCell(4)] * 1)))
        made["wrapped"] = ([(3, 5, 6)], recurrent(lambda: rnn.ResidualWrapper(rnn.GRUCell(6))))
    return made


def frozen(session, name, shapes, build):
    """Build a graph in a session; return it with its weights as constants, inputs, output, their arrays, the result."""
    if hasattr(v1, "set_random_seed"):
        v1.set_random_seed(0)
    inputs = [v1.placeholder(tf.float32, (None, *shape[1:]), f"x{i}") for i, shape in enumerate(shapes)]
    if name == "deconvolution":
        inputs[0].set_shape(shapes[0])
    output = v1.identity(build(*inputs), "y0") if "end" not in name else build(*inputs)
    session.run(v1.global_variables_initializer())
    given = [weights(*shape) * 2 for shape in shapes]
    computed = session.run(output, dict(zip(inputs, given)))  # noqa: B905
    constant = v1.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), [output.op.name])
    return constant, inputs, output, given, computed


def save_graph(session, folder, inputs, outputs):
    """Save a graph of TensorFlow 1 with its variables and one signature."""
    if hasattr(v1.saved_model, "simple_save"):
        v1.saved_model.simple_save(session, folder, inputs, outputs)
        return
    parts = v1.saved_model  # of releases before 1.7
    signature = parts.signature_def_utils.predict_signature_def(inputs, outputs)
    builder = parts.builder.SavedModelBuilder(folder)
    builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
    builder.save()


def write_graph(archive, name, shapes, build):
    """Add a graph as a frozen file, and as a SavedModel of TensorFlow 1 with variables."""
    with v1.Graph().as_default(), v1.Session() as session:
        constant, inputs, output, given, computed = frozen(session, name, shapes, build)
        path = archive.path("graph_" + name + ".pb")
        with open(path, "wb") as file:
            file.write(constant.SerializeToString())
        folder = archive.path("graph_" + name + ".savedmodel")
        save_graph(session, folder, {f"x{i}": value for i, value in enumerate(inputs)}, {"y0": output})
    archive.file(path)
    archive.file(folder)
    archive.arrays("graph_" + name, given, [computed])


def modules():
    """Return the modules of TensorFlow 2 by name: the shape of the input, the module, and what saves it."""

    class Plain(tf.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = tf.Variable(weights(6, 4)), tf.Variable(weights(4))

        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x0")])
        def __call__(self, x0):
            return tf.nn.relu(x0 @ self.w + self.b)

    class Counting(Plain):
        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x0")])
        def __call__(self, x0):
            y = x0 @ self.w
            for step in tf.range(3):
                y = y * 0.5 + tf.cast(step, tf.float32)
            return y if tf.reduce_sum(y) > 0 else y - self.b

    class Holding(tf.Module):
        def __init__(self):
            super().__init__()
            L = tf.keras.layers
            self.net = tf.keras.Sequential([L.Input((6,)), L.Dense(4, activation="tanh"), L.Dense(3)])

        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x0")])
        def serve(self, x0):
            return {"y0": self.net(x0)}

    class Subclassed(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first = tf.keras.layers.Dense(4, activation="relu")
            self.cells = tf.keras.layers.LSTM(3)

        def call(self, x):
            return self.cells(tf.reshape(self.first(x), [-1, 2, 2]))

    def functional():
        L = tf.keras.layers
        x = L.Input((8, 7, 3), name="x0")
        y = L.GlobalAveragePooling2D()(L.ReLU()(L.BatchNormalization()(L.Conv2D(4, 3, padding="same")(x))))
        return tf.keras.Model(x, L.Dense(3, name="y0")(y))

    def recurrent():
        L = tf.keras.layers
        x = L.Input((5, 4), name="x0")
        return tf.keras.Model(x, L.Dense(2, name="y0")(L.Bidirectional(L.GRU(3))(x)))

    def nothing(model, folder):
        tf.saved_model.save(model, folder)

    def signature(model, folder):
        tf.saved_model.save(model, folder, model.__call__.get_concrete_function())

    def exported(model, folder):
        model.export(folder)

    def kept(model, folder):
        model.save(folder)

    return {
        "module": ((3, 6), Plain, signature),
        "module_loop": ((3, 6), Counting, signature),
        "module_no_signature": ((3, 6), Plain, nothing),
        "module_holding": ((3, 6), Holding, lambda m, f: tf.saved_model.save(m, f, m.serve)),
        "subclassed": ((3, 6), Subclassed, nothing),
        "functional": ((2, 8, 7, 3), functional, nothing),
        "functional_kept": ((2, 8, 7, 3), functional, kept),
        "functional_exported": ((2, 8, 7, 3), functional, exported),
        "recurrent": ((2, 5, 4), recurrent, nothing),
        "recurrent_kept": ((2, 5, 4), recurrent, kept),
    }


def write_module(archive, name, shape, make, save):
    """Add a SavedModel of TensorFlow 2."""
    tf.random.set_seed(0)
    model, given = make(), weights(*shape) * 2
    computed = model.serve(tf.constant(given))["y0"] if hasattr(model, "serve") else model(tf.constant(given))
    if hasattr(model, "predict"):
        computed = model.predict(given)
    folder = archive.path("object_" + name + ".savedmodel")
    save(model, folder)
    archive.file(folder)
    archive.arrays("object_" + name, [given], [np.asarray(computed)])


def lite_networks():
    """Return the networks for TensorFlow Lite by name: the shape of the input and the Keras model."""
    L, M = tf.keras.layers, tf.keras.models

    def sequential(*layers):
        return lambda: M.Sequential([layer() for layer in layers])

    made = {
        "picture": (
            (1, 8, 7, 3),
            sequential(
                lambda: L.Conv2D(4, 3, padding="same", activation="relu", input_shape=(8, 7, 3)),
                lambda: L.DepthwiseConv2D(3, padding="same"),
                lambda: L.BatchNormalization(),
                lambda: L.ReLU(6.0),
                lambda: L.MaxPooling2D(2),
                lambda: L.Flatten(),
                lambda: L.Dense(5, activation="softmax"),
            ),
        ),
        "upscaling": (
            (1, 4, 5, 3),
            sequential(
                lambda: L.Conv2DTranspose(4, 3, strides=2, padding="same", input_shape=(4, 5, 3)),
                lambda: L.Activation("tanh"),
                lambda: L.UpSampling2D(2),
                lambda: L.AveragePooling2D(2),
            ),
        ),
        "dense": (
            (1, 6),
            sequential(
                lambda: L.Dense(8, activation="sigmoid", input_shape=(6,)),
                lambda: L.Dense(8, activation="elu"),
                lambda: L.Dense(3),
            ),
        ),
    }
    if not ONE:  # its converter takes minutes to refuse these
        made["lstm"] = ((1, 5, 4), sequential(lambda: L.LSTM(3, input_shape=(5, 4)), lambda: L.Dense(2)))
        made["gru"] = ((1, 5, 4), sequential(lambda: L.GRU(3, input_shape=(5, 4)), lambda: L.Dense(2)))
        made["volume"] = (
            (1, 4, 5, 4, 2),
            sequential(lambda: L.Conv3D(2, 2, input_shape=(4, 5, 4, 2)), lambda: L.AveragePooling3D(2)),
        )
        made["conv_lstm"] = ((1, 3, 5, 4, 2), sequential(lambda: L.ConvLSTM2D(2, 2, input_shape=(3, 5, 4, 2))))
    return made


RECURRENT = ("lstm", "gru", "conv_lstm")


def lite_kinds():
    """Return the ways of conversion by name: what sets up a converter, given samples."""

    def samples(converter, given):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: iter([[given * scale] for scale in (1.0, -1.0, 0.5)])

    def hybrid(converter, given):
        if hasattr(tf.lite, "Optimize"):
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        else:
            converter.post_training_quantize = True

    def half(converter, given):
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]

    def whole(dtype):
        def set_up(converter, given):
            samples(converter, given)
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = dtype

        return set_up

    def wide(converter, given):
        samples(converter, given)
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        ]

    def flex(converter, given):
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]

    return {
        "float": lambda converter, given: None,
        "hybrid": hybrid,
        "half": half,
        "int8": samples,
        "int8_whole": whole(getattr(tf, "int8", None)),
        "uint8_whole": whole(tf.uint8),
        "int16": wide,
        "flex": flex,
    }


def write_lite(archive, name, shape, make, kind, set_up):
    """Add a TensorFlow Lite file, with the outputs that this release's interpreter computes."""
    tf.keras.backend.clear_session()
    v1.set_random_seed(0)
    model, given = make(), weights(*shape) * 2
    if ONE:
        path = archive.path("model.h5")
        model.save(path)
        converter = tf.lite.TFLiteConverter.from_keras_model_file(path)
    elif RELEASE >= (2, 16):  # a function of a Keras 3 model loses its weights; recurrent layers need a batch
        fixed = tf.keras.Input(batch_shape=shape)
        converter = tf.lite.TFLiteConverter.from_keras_model(tf.keras.Model(fixed, model(fixed)))
    else:
        signature = tf.TensorSpec(shape, tf.float32)
        concrete = tf.function(lambda x: model(x)).get_concrete_function(signature)
        converter = (
            tf.lite.TFLiteConverter.from_concrete_functions([concrete], model)
            if RELEASE >= (2, 7)
            else tf.lite.TFLiteConverter.from_concrete_functions([concrete])
        )
    set_up(converter, given)
    content = converter.convert()
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    taken, left = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    if taken["dtype"] in (np.int8, np.uint8):
        scale, zero = taken["quantization"]
        bounds = np.iinfo(taken["dtype"])
        given = np.clip(np.round(given / scale) + zero, bounds.min, bounds.max).astype(taken["dtype"])
    interpreter.set_tensor(taken["index"], given)
    interpreter.invoke()
    stem = f"lite_{name}_{kind}"
    path = archive.path(stem + ".tflite")
    with open(path, "wb") as file:
        file.write(content)
    archive.file(path)
    archive.arrays(stem, [given], [interpreter.get_tensor(left["index"])])


def lite_modules():
    """Return modules for TensorFlow Lite by name: what makes them, their functions, and what sets up the converter."""

    def function(call):
        return tf.function(call, input_signature=[tf.TensorSpec([2, 6], tf.float32, "x0")])

    class Flex(tf.Module):
        @function
        def first(self, x0):
            return tf.math.cumprod(tf.math.erf(x0) @ weights(6, 4), 1)

    class Adding(tf.Module):
        def __init__(self):
            super().__init__()
            self.state = tf.Variable(tf.zeros([2, 6]))

        @function
        def first(self, x0):
            return self.state.assign_add(x0) * 2.0

    class Two(tf.Module):
        @function
        def first(self, x0):
            return tf.nn.relu(x0 @ weights(6, 4))

        @function
        def second(self, x0):
            return tf.tanh(x0) * 3.0

    def flex(converter):
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]

    def resources(converter):
        flex(converter)
        converter.experimental_enable_resource_variables = True

    return {
        "flex": (Flex, ["first"], flex),
        "resources": (Adding, ["first"], resources),
        "signatures": (Two, ["first", "second"], flex),
    }


def write_lite_module(archive, name, make, functions, set_up):
    """Add a TensorFlow Lite file with signatures, once for each of them, and the SavedModel that it was made of."""
    module, given = make(), weights(2, 6)
    folder = archive.path("module_" + name + ".savedmodel")
    tf.saved_model.save(module, folder, {key: getattr(module, key) for key in functions})
    converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=functions)
    set_up(converter)
    content = converter.convert()
    states = [np.zeros((2, 6), "float32")] if name == "resources" else []
    for key in functions:
        computed = [np.asarray(getattr(module, key)(tf.constant(given)))]
        options = {"signature": key} if len(functions) > 1 else {}
        stem = f"lite_module_{name}_{key}"
        path = archive.path(stem + ".tflite")
        with open(path, "wb") as file:
            file.write(content)
        archive.file(path)
        archive.file(folder, stem + ".savedmodel")
        archive.arrays(stem, [given, *states], computed, **options)


def main(target, only=""):
    """Write the archive."""
    archive = Archive(target)
    rows = [("graph_" + name, write_graph, (name, *row)) for name, row in graphs().items()]
    if not ONE:
        rows += [("object_" + name, write_module, (name, *row)) for name, row in modules().items()]
    if hasattr(tf, "lite"):
        rows += [
            (f"lite_{name}_{kind}", write_lite, (name, *row, kind, set_up))
            for name, row in lite_networks().items()
            for kind, set_up in lite_kinds().items()
            if RELEASE < (2, 16) or "int" not in kind or name not in RECURRENT  # the calibrator ends the process
        ]
    if hasattr(tf, "lite") and not ONE:
        rows += [("lite_module_" + name, write_lite_module, (name, *row)) for name, row in lite_modules().items()]
    for name, write, arguments in rows:
        if only in name:
            archive.attempt(name, lambda write=write, arguments=arguments: write(archive, *arguments))
    archive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
