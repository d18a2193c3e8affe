"""Reads a `.safetensors` file, in one place for whole files, folders and adapters."""

from __future__ import annotations

from pathlib import Path

import torch

from convert.errors import BadInput, ConvertError
from convert.files.sniff import sniff
from convert.outcome.extras import install_command


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file by name. Raises `BadInput` for any other kind of file, and for a broken one."""
    try:
        from safetensors.torch import load_file
    except ImportError:
        hint = install_command("safetensors")
        raise ConvertError("reading .safetensors needs the package safetensors", hint=hint) from None
    kind = sniff(path)
    try:
        if kind == "safetensors":
            return load_file(path)
    except Exception as error:
        raise BadInput(f"{path} is not a readable safetensors file: {error}", hint="get the file again") from error
    raise BadInput(f"{path} is not a safetensors file", hint="get the file again")
