"""Convert quantized TensorFlow Lite files in their public forms, and count the PASSes.

    python tests/suites/quantized_sources.py [--only NAME …] [--forms FORM …] [--targets onnx,keras,torch]

Each network is built in Keras with random weights, quantized by TensorFlow's converter on random pictures, and
converted. The forms are int8 with a scale for each channel, uint8 with a scale for each tensor (as the first
MobileNets), int16 activations with int8 weights, and int8 with float32 inputs and outputs. A line for each row is
printed, then the counts. The exit code is 0 only if every row is a PASS.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SIZE = 64
SUFFIX = {"onnx": ".onnx", "keras": ".keras", "torch": ".pt2"}


def separable(x: Any, channels: int, stride: int = 1) -> Any:
    """Return a depthwise and a pointwise convolution, each with a batch norm and ReLU6, as in MobileNet."""
    from keras import layers

    x = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization(momentum=0.0)(x))
    x = layers.Conv2D(channels, 1, use_bias=False)(x)
    return layers.ReLU(6.0)(layers.BatchNormalization(momentum=0.0)(x))


def mobilenet(x: Any) -> Any:
    """Return separable convolutions, a mean over 4 × 4 pixels, a dense layer and Softmax."""
    from keras import layers

    x = layers.Conv2D(8, 3, 2, padding="same", activation="relu6")(x)
    for channels, stride in ((16, 1), (32, 2), (32, 1), (64, 2)):
        x = separable(x, channels, stride)
    return layers.Dense(10, activation="softmax")(layers.Flatten()(layers.AveragePooling2D(4)(x)))


def inverted(x: Any) -> Any:
    """Return inverted residuals of MobileNetV2 with hard swish and squeeze-and-excite, as in MobileNetV3."""
    from keras import layers

    x = layers.Conv2D(16, 3, 2, padding="same", activation="hard_swish")(x)
    for _ in range(2):
        y = layers.Conv2D(32, 1, activation="hard_swish")(x)
        y = layers.DepthwiseConv2D(3, padding="same", activation="hard_swish")(y)
        gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
        gate = layers.Conv2D(32, 1, activation="hard_sigmoid")(layers.Conv2D(8, 1, activation="relu")(gate))
        x = layers.Add()([x, layers.Conv2D(16, 1)(layers.Multiply()([y, gate]))])
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


def blazeface(x: Any) -> Any:
    """Return residual blocks with pooled and padded shortcuts, and one tensor each for boxes and scores of two
    scales.
    """
    from keras import layers, ops

    x = layers.Conv2D(8, 5, 2, padding="same", activation="relu")(x)
    boxes, scores = [], []
    for channels in (16, 24):
        y = layers.Conv2D(channels, 1)(layers.DepthwiseConv2D(3, 2, padding="same")(x))
        short = ops.pad(layers.MaxPooling2D()(x), [(0, 0), (0, 0), (0, 0), (0, channels - x.shape[-1])])
        x = layers.ReLU()(layers.Add()([y, short]))
        boxes.append(layers.Reshape((-1, 16))(layers.Conv2D(32, 1)(x)))
        scores.append(layers.Reshape((-1, 1))(layers.Conv2D(2, 1)(x)))
    return [layers.Concatenate(1)(boxes), layers.Concatenate(1)(scores)]


def posenet(x: Any) -> Any:
    """Heatmaps and offsets of places in the picture."""
    from keras import layers

    x = layers.Conv2D(8, 3, 2, padding="same", activation="relu6")(x)
    for channels, stride in ((16, 2), (32, 2), (32, 1)):
        x = separable(x, channels, stride)
    return [layers.Conv2D(17, 1, activation="sigmoid")(x), layers.Conv2D(34, 1)(x)]


def segmenter(x: Any) -> Any:
    """Return a small U-Net: transposed convolutions, a bilinear resize, joined maps."""
    from keras import layers

    low = layers.Conv2D(8, 3, 2, padding="same", activation="relu")(x)
    deep = layers.Conv2D(16, 3, 2, padding="same", activation="relu")(low)
    up = layers.Conv2DTranspose(8, 2, 2)(deep)
    y = layers.Concatenate()([up, low])
    return layers.UpSampling2D(2, interpolation="bilinear")(layers.Conv2D(3, 3, padding="same")(y))


NETWORKS: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (mobilenet, inverted, blazeface, posenet, segmenter)
}
FORMS = ("int8", "uint8", "int16x8", "int8 inside")


def quantized(name: str, form: str, path: Path) -> None:
    """Write a network as a TensorFlow Lite file in a form."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(len(name))
    x = keras.Input((SIZE, SIZE, 3))
    model = keras.Model(x, NETWORKS[name](x))
    rng = np.random.default_rng(1)
    pictures = [rng.uniform(-1, 1, (1, SIZE, SIZE, 3)).astype(np.float32) for _ in range(16)]
    model(np.concatenate(pictures), training=True)  # Give batch norms statistics with which activations stay near 1.
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([picture] for picture in pictures)
    sets = tf.lite.OpsSet
    wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    exact = [wide, sets.TFLITE_BUILTINS] if form == "int16x8" else [sets.TFLITE_BUILTINS_INT8]
    converter.target_spec.supported_ops = exact  # HARD_SWISH has no kernel in 16 bits
    dtype = {"int8": tf.int8, "uint8": tf.uint8, "int16x8": tf.int16}.get(form, tf.float32)
    converter.inference_input_type = converter.inference_output_type = dtype
    converter._experimental_disable_per_channel = form == "uint8"
    path.write_bytes(converter.convert())


def rows(names: list[str], forms: list[str], targets: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each row, its outcome, and the reason or error."""
    import convert
    from convert.errors import ConvertError

    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for form in forms:
                source = Path(folder) / "a.tflite"
                quantized(name, form, source)
                for to in targets:
                    try:
                        verdict = convert.convert(source, to, source.with_suffix(SUFFIX[to]), force=True).verdict
                        assert verdict is not None
                        outcome, why = verdict.status, verdict.reason
                    except ConvertError as error:
                        outcome, why = type(error).__name__, error.message
                    yield f"{name} {form} → {to}", outcome, why


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS), metavar="FORM")
    parser.add_argument("--targets", default="onnx,keras,torch")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    began = time.perf_counter()
    for what, outcome, why in rows(args.only, args.forms, args.targets.split(",")):
        counts[outcome] += 1
        print(f"{what}: {outcome} {why}", flush=True)
    print(f"{dict(counts)}; {time.perf_counter() - began:.0f} s")
    sys.exit(counts.keys() != {"PASS"})


if __name__ == "__main__":
    main()
