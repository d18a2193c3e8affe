"""A program of the user's that calls `convert.convert` with a hostile file."""

from __future__ import annotations

import sys


def convert_from_python(path: str) -> None:
    """Exit with the code of the error: there are no limits of a command, nor a process of its own.

    The clock of TorchScript's loops has the limit that commands get here, as a program sets it that is in a hurry.
    """
    import convert
    from convert import limits

    limits.TORCHSCRIPT_RUN_SECONDS = 15.0
    try:
        convert.convert(path, "onnx", "model.onnx", verify=False)
    except convert.ConvertError as error:
        print(f"error: {error}")  # as it is: its names must have been made visible before
        sys.exit(error.exit_code)
