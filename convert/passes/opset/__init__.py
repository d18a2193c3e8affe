"""From one opset of ONNX to another, up to the canonical one and down to what a file asks for."""
