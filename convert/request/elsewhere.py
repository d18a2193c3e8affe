"""Formats that other tools write, and how to get there from a format that is written here, by name and by suffix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """A format's name, the suffix of its files, and a sentence with the commands that produce it."""

    title: str
    names: tuple[str, ...]
    suffixes: tuple[str, ...]
    way: str


ROUTES = (
    Route("OpenVINO's .xml", (), (".xml",),
          "--to openvino writes a folder with model.xml and model.bin: give an -o that ends in .openvino"),
    Route("Core ML's older .mlmodel", ("mlmodel", "neuralnetwork"), (".mlmodel",),
          "--to coreml writes an ML program, a folder that ends in .mlpackage: give an -o that does"),
    Route("A format for all of Android", ("android",), (),
          "its runtimes read several: --to tflite (LiteRT), --to onnx (ONNX Runtime) or --to executorch"),
    Route("A format for all of iOS", ("ios", "iphone", "ipados", "macos"), (),
          "its runtimes read several: --to coreml, --to tflite (LiteRT), --to onnx or --to executorch"),
    Route("PyTorch Mobile's .ptl", ("ptl", "pytorch-lite", "torch-lite", "pytorch-mobile", "torch-mobile"), (".ptl",),
          "PyTorch Mobile has ended: --to executorch writes for its successor, ExecuTorch"),
    Route("TensorFlow.js", ("tfjs", "tensorflowjs", "tensorflow.js", "tf.js"), (),
          "write tf, then `tensorflowjs_converter --input_format=tf_saved_model model.savedmodel web_model`"),
    Route("TensorRT", ("tensorrt", "trt", "engine", "plan"), (".engine", ".trt", ".plan"),
          "write onnx, then `trtexec --onnx=model.onnx --saveEngine=model.engine` on the machine that runs it"),
    Route("NCNN", ("ncnn", "pnnx"), (".param", ".ncnn"), "write onnx, then `pnnx model.onnx`"),
    Route("MNN", ("mnn",), (".mnn",),
          "write onnx, then `MNNConvert -f ONNX --modelFile model.onnx --MNNModel model.mnn --bizCode MNN`"),
    Route("ONNX Runtime's own format", ("ort", "onnxruntime"), (".ort",),
          "write onnx, which ONNX Runtime reads; for an .ort file then "
          "`python -m onnxruntime.tools.convert_onnx_models_to_ort model.onnx`"),
    Route("TVM", ("tvm",), (), "write onnx, then `tvmc compile --target llvm model.onnx`"),
    Route("MLIR", ("mlir", "iree", "stablehlo"), (".mlir", ".vmfb"),
          "write onnx, then `iree-import-onnx model.onnx -o model.mlir`"),
    Route("PaddlePaddle", ("paddle", "paddlepaddle"), (".pdmodel",),
          "write onnx, then `x2paddle --framework=onnx --model=model.onnx --save_dir=paddle_model`"),
    Route("Qualcomm's DLC", ("dlc", "snpe", "qnn"), (".dlc",),
          "write onnx, then `snpe-onnx-to-dlc --input_network model.onnx`"),
    Route("Edge TPU", ("edgetpu", "edge-tpu", "coral"), (),
          "write tflite with --quantize int8 --calibrate samples.npz, then `edgetpu_compiler model.tflite`"),
    Route("An array in C", ("tflite-micro", "tflm", "c-array"), (".c", ".cc", ".h"),
          "write tflite, then `xxd -i model.tflite`"),
    Route("HDF5 of Keras", ("h5", "hdf5", "keras-h5", "keras2"), (".h5", ".hdf5"),
          "write keras, then in Python `keras.models.load_model('model.keras').save('model.h5')`"),
    Route("Caffe", ("caffe", "caffe1", "caffemodel", "prototxt"), (".caffemodel", ".prototxt"),
          "Caffe 1 is another program than Caffe2, which --to caffe2 writes"),
    Route("PyTorch's .pth", ("pth",), (".pth",),
          "write torch, a .pt2: in Python `torch.export.load('model.pt2').module()` is a module to call and to train"),
    Route("JAX", ("jax", "flax"), (".msgpack",), "write onnx, which jaxonnxruntime turns into a function of JAX"),
    Route("A file of weights alone", ("safetensors",), (".safetensors",),
          "safetensors hold no graph: save the module's state dict with safetensors.torch.save_file"),
    Route("GGUF", ("gguf", "ggml", "llama.cpp"), (".gguf",),
          "llama.cpp's `convert_hf_to_gguf.py` makes it from the Hugging Face folder"),
)  # fmt: skip


def route_by_name(name: str) -> Route | None:
    """Return the route to a format called `name` (lower case, with "-")."""
    return next((route for route in ROUTES if name in route.names), None)


def route_by_suffix(name: str) -> Route | None:
    """Return the route to the format that a file name's suffix belongs to."""
    return next((route for route in ROUTES if name.lower().endswith(route.suffixes)), None)
