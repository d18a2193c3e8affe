"""A user's program that calls `convert.convert` with a hostile file."""

from __future__ import annotations

import sys


def convert_from_python(path: str) -> None:
    """Convert, and exit with the error's code.

    A program has neither a command's limits nor its worker. TorchScript's loops get the same time limit as the commands
    here.
    """
    import convert
    from convert import limits

    limits.TORCHSCRIPT_RUN_SECONDS = 15.0
    try:
        convert.convert(path, "onnx", "model.onnx", verify=False)
    except convert.ConvertError as error:
        print(f"error: {error}")  # printed unchanged: control characters in names must be escaped already
        sys.exit(error.exit_code)
