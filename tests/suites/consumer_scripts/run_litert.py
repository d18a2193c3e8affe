"""Run a TensorFlow Lite file by its signature, in LiteRT or its older package, tflite-runtime."""

from arrays import answer, feeds

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:
    from tflite_runtime.interpreter import Interpreter

path, inputs = feeds()
interpreter = Interpreter(model_path=path, num_threads=1)
for name, array in inputs.items():
    place = interpreter.get_signature_runner("serving_default").get_input_details()[name]["index"]
    interpreter.resize_tensor_input(place, array.shape)
interpreter.allocate_tensors()
found = interpreter.get_signature_runner("serving_default")(**inputs)
answer([found[name] for name in sorted(found)])
