"""A program of the user's that calls `convert.convert` with a hostile file."""

from __future__ import annotations

import sys


def convert_from_python(path: str) -> None:
    """Exit with the code of the error: there are no limits of a command, nor a process of its own."""
    import convert
    from convert.text import visible

    try:
        convert.convert(path, "onnx", "model.onnx", verify=False)
    except convert.ConvertError as error:
        print(visible(str(error)))
        sys.exit(error.exit_code)
