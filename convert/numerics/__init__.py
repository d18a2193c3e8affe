"""Functions without an ONNX operator, built of ONNX operators: special functions, matrix solvers."""
