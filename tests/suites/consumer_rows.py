"""Table of the consumers, the programs that read our artefacts: requirements, inputs, and what each refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.suites.consumer_environments import Needs

NO_LSTM = {"lstm": "LSTM", "gru": "GRU"}

BROWSER = {
    "grouped": "depth of input",
    "responses": "Activation tanh has not been implemented",
    "attention": "Unsupported Ops",
}
"""Networks that TensorFlow.js refuses: it has no grouped convolution, no fused tanh, and no Erfc."""


@dataclass(frozen=True)
class Consumer:
    """A program, the script that runs a model in it (`consumer_scripts/`), and how models are written for it."""

    name: str
    needs: Needs
    script: str
    format: str = "onnx"
    options: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    batch: str = "batch"
    """The batch dim of the written models: a name if any size is accepted, else a number."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Networks that the consumer refuses, each with words of its message."""
    unwritten: Mapping[str, str] = field(default_factory=dict)
    """Networks that the format or opset cannot express, each with words of our error."""


def _onnxruntime(version: str, python: str, opset: int, *more: str) -> Consumer:
    needs = Needs(python, (f"onnxruntime{version}", *more))
    return Consumer(f"onnxruntime {version.strip('=')}".strip(), needs, "run_onnxruntime.py", options={"opset": opset})


def _browser(package: str) -> Consumer:
    return Consumer(package, Needs(npm=(package,)), "run_onnxruntime.mjs", variables={"CONSUMER": package})


def _keras(backend: str, *packages: str) -> Consumer:
    needs = Needs(pip=("keras", *packages))
    return Consumer(f"keras on {backend}", needs, "run_keras.py", "keras", variables={"KERAS_BACKEND": backend})


TFJS = ("tensorflow==2.15.1", "tensorflow-decision-forests==1.8.1", "tf-keras==2.15.1", "tensorflow-hub==0.16.1",
        "jax==0.4.30", "jaxlib==0.4.30", "importlib_resources", "six", "setuptools<70")  # fmt: skip
CNTK_LIBRARIES = ("libopenmpi3", "libhwloc15", "libevent-core-2.1-7", "libevent-pthreads-2.1-7")
CNTK_LINKS = {"libmpi.so.12": "libmpi.so.40", "libmpi_cxx.so.1": "libmpi_cxx.so.40"}

CONSUMERS: tuple[Consumer, ...] = (
    _onnxruntime("", "3.11", 20),
    _onnxruntime("==1.12.1", "3.9", 17, "numpy<2"),
    _onnxruntime("==1.8.1", "3.8", 14, "numpy<1.24"),
    Consumer("OpenVINO", Needs(pip=("openvino",)), "run_openvino.py"),
    Consumer("onnxsim", Needs(pip=("onnxsim", "onnxruntime")), "run_onnxsim.py"),
    Consumer("onnxslim", Needs(pip=("onnxslim", "onnxruntime")), "run_onnxslim.py"),
    Consumer("tract", Needs(pip=("tract", "numpy")), "run_tract.py"),
    Consumer("TVM", Needs(pip=("apache-tvm", "onnx")), "run_tvm.py", refuses=NO_LSTM),
    _browser("onnxruntime-node"),
    _browser("onnxruntime-web"),
    Consumer("MXNet", Needs("3.8", ("mxnet==1.9.1", "numpy<1.24", "onnx==1.12.0", "protobuf<3.21")), "run_mxnet.py",
             options={"opset": 8}, refuses=dict.fromkeys(NO_LSTM, "not implemented")),
    Consumer("CNTK", Needs("3.6", ("cntk==2.7.post2",), debian=CNTK_LIBRARIES, links=CNTK_LINKS), "run_cntk.py",
             options={"opset": 7}, batch="2",
             refuses={"responses": "Squeeze", "bilinear": "Splice", "lstm": "Squeeze", "gru": "Squeeze"}),
    Consumer("TensorFlow 2.15", Needs(pip=("tensorflow-cpu==2.15.1",)), "run_tensorflow.py", "tf"),
    Consumer("TensorFlow.js", Needs("3.10", TFJS, ("tensorflowjs==4.22.0",), ("@tensorflow/tfjs",)),
             "run_tfjs.py", "tf", refuses=BROWSER),
    _keras("torch", "torch==2.13.0"),
    _keras("jax", "jax"),
    Consumer("LiteRT", Needs(pip=("ai-edge-litert",)), "run_litert.py", "tflite"),
    Consumer("tflite-runtime", Needs(pip=("tflite-runtime", "numpy<2")), "run_litert.py", "tflite"),
)  # fmt: skip
