"""Loads a folder of PyTorch code by executing it, if this run has written it or the user trusts it."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any

import torch
from safetensors.torch import load_file

from convert.errors import BadInput, UnsafeInput
from convert.request.source import Source


def load_code(source: Source, trust: bool) -> torch.nn.Module:
    """Return `Model()` of `model.py` with the weights of `model.safetensors`; a single output has the name that it
    declares.

    Raises `UnsafeInput` for code that neither this run has written nor the user trusts, and `BadInput` for code that
    fails.
    """
    folder = source.file
    if not source.written_here and not trust:
        raise UnsafeInput(
            f"{folder} is code: model.py would have to be executed", hint="if you trust it, give --trust (trust=True)"
        )
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec = importlib.util.spec_from_file_location("model", folder / "model.py")
        assert spec is not None
        assert spec.loader is not None
        code = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(code)
        module: torch.nn.Module = code.Model()
        module.load_state_dict(load_file(folder / "model.safetensors"))
    except Exception as error:  # any exception, because the code is arbitrary
        raise BadInput(f"{folder} does not load: {type(error).__name__}: {error}", hint="write it again") from error
    finally:
        sys.dont_write_bytecode = writes
    names: tuple[Any, ...] = getattr(code, "OUTPUT_NAMES", ())
    if len(names) == 1:
        _name_output(module, str(names[0]))
    return module


def _name_output(module: torch.nn.Module, name: str) -> None:
    """Make forward return its single tensor under its name."""
    forward = module.forward

    @functools.wraps(forward)
    def named(*args: Any, **kwargs: Any) -> Any:
        y = forward(*args, **kwargs)
        return {name: y} if isinstance(y, torch.Tensor) else y

    module.forward = named
