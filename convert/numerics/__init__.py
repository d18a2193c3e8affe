"""Functions that ONNX has no operator for, written out of its operators: special functions, solvers of matrices."""
