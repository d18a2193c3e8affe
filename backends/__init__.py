"""Writers: each emits the shared ONNX graph as one framework's artefacts and knows no frontend."""
