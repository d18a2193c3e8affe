"""Recurrent layers found in the bodies of loops, and the ONNX operators for them."""
