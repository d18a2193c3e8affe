"""Formats that others write, and the way there from a format that is written here: data, by name and by suffix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """What a format is called, how its files end, and how to get there: a sentence with the commands."""

    title: str
    names: tuple[str, ...]
    suffixes: tuple[str, ...]
    way: str


ROUTES = (
    Route("OpenVINO", ("openvino", "ov", "ir", "openvino-ir"), (".xml",),
          "write onnx, then `ovc model.onnx`; OpenVINO reads the .onnx itself, too"),
    Route("Core ML", ("coreml", "mlmodel", "mlpackage", "mlprogram", "apple"), (".mlmodel", ".mlpackage"),
          "write tf, then in Python `coremltools.convert('model.savedmodel', source='tensorflow')`"),
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
    Route("ExecuTorch", ("executorch", "pte"), (".pte",),
          "it is made from the PyTorch module, with torch.export and ExecuTorch's own to_edge"),
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
    """The way to a format called `name` (lower case, with "-")."""
    return next((route for route in ROUTES if name in route.names), None)


def route_by_suffix(name: str) -> Route | None:
    """The way to the format that a file's name tells."""
    return next((route for route in ROUTES if name.lower().endswith(route.suffixes)), None)
