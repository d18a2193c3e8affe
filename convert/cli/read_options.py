"""The command-line options that say how to read a model, shared by every verb that reads one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

LAYOUTS = ("nchw", "nhwc")


@dataclass(frozen=True)
class ReadOptions:
    """The values of these options: specs of inputs, the part of the file to read, permissions, and files of rules."""

    inputs: tuple[str, ...] = ()
    model: str = ""
    model_args: tuple[str, ...] = ()
    code: tuple[Path, ...] = ()
    outputs: tuple[str, ...] = ()
    signature: str = ""
    trust: bool = False
    trace: bool = False
    rules: tuple[Path, ...] = ()
    download: bool = False

    def written_by(self, sources: Sequence[Path], written: Sequence[Path]) -> list[Path] | None:
        """Return the paths that a command writes; None if it runs the user's own code, which may write anywhere.

        sources: the models that it reads. A source that is no file is a factory.
        """
        own = self.trust or self.rules or self.code or self.model or not all(map(os.path.exists, sources))
        return None if own else list(written)

    def options(self) -> dict[str, Any]:
        """Return the arguments of the functions in `convert.api` that read a model, except the files of rules."""
        from convert.request.given_inputs import parse_model_args

        return {
            "inputs": list(self.inputs) or None,  # an empty list would mean that the model takes no inputs
            "model": self.model,
            "model_args": parse_model_args(self.model_args),
            "code": self.code,
            "outputs": self.outputs,
            "signature": self.signature,
            "trust": self.trust,
            "trace": self.trace,
        }


_OPTIONS = [
    click.option("--input", "inputs", multiple=True, metavar="NAME:DTYPE[DIMS]",
                 help="Describe an input (x:float32[batch,3,224,224]), fix its value (sr=16000), or name the tensor "
                 "where a graph begins; repeatable."),
    click.option("--model", metavar="PKG.MOD:FACTORY",
                 help="The factory that builds the module for a file of weights."),
    click.option("--model-arg", "model_args", multiple=True, metavar="NAME=VALUE",
                 help="Argument for the factory, e.g. num_classes=9; repeatable."),
    click.option("--code", multiple=True, type=click.Path(path_type=Path), metavar="FILE.py",
                 help="Python file with classes that the model's file names; repeatable."),
    click.option("--outputs", metavar="NAME,…", help="Tensors that become the outputs, of a frozen graph or ONNX."),
    click.option("--signature", default="", metavar="NAME", help="Signature of a SavedModel to convert."),
    click.option("--trust", is_flag=True, help="Allow executing what the model file contains."),
    click.option("--trace", is_flag=True, help="Convert only the path that the example input takes."),
    click.option("--download", is_flag=True, help="Download a model hf://ORG/NAME from the Hugging Face hub first."),
    click.option("--rules", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
                 help="Python file with rules for custom operators."),
]  # fmt: skip


def with_read_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them together as `read_options`."""

    @functools.wraps(command)
    def with_options(
        *args: Any,
        inputs: tuple[str, ...],
        model: str | None,
        model_args: tuple[str, ...],
        code: tuple[Path, ...],
        outputs: str | None,
        signature: str,
        trust: bool,
        trace: bool,
        rules: tuple[Path, ...],
        download: bool,
        **rest: Any,
    ) -> Any:
        names = tuple(n for n in (outputs or "").split(",") if n)
        read_options = ReadOptions(
            inputs, model or "", model_args, code, names, signature, trust, trace, rules, download
        )
        return command(*args, read_options=read_options, **rest)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options
