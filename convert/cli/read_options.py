"""The options of the command line that say how a model is read, shared by every verb that reads one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click


@dataclass(frozen=True)
class ReadOptions:
    """What the options said: descriptions of inputs, what of the file is meant, what is allowed, files of rules."""

    inputs: tuple[str, ...]
    model: str
    model_args: tuple[str, ...]
    code: tuple[Path, ...]
    outputs: tuple[str, ...]
    signature: str
    trust: bool
    trace: bool
    rules: tuple[Path, ...]

    def written_by(self, sources: Sequence[Path], written: Sequence[Path]) -> list[Path] | None:
        """What a command writes, or None where it runs code of the user's, which may write anywhere.

        sources: the models that it reads. A factory is one that is no file.
        """
        own = self.trust or self.rules or self.code or self.model or not all(map(os.path.exists, sources))
        return None if own else list(written)

    def options(self) -> dict[str, Any]:
        """Arguments of the functions of `convert.api` that read a model, all but the files of rules."""
        from convert.fixed_values import parse_model_args

        return {
            "inputs": list(self.inputs) or None,  # an empty list says that the model takes none
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
                 help="Describe an input, e.g. x:float32[batch,3,224,224], fix one (sr=16000), or name where a "
                 "graph begins; repeatable."),
    click.option("--model", metavar="PKG.MOD:FACTORY",
                 help="The factory that builds the module for a file of weights."),
    click.option("--model-arg", "model_args", multiple=True, metavar="NAME=VALUE",
                 help="An argument of the factory, e.g. num_classes=9; repeatable."),
    click.option("--code", multiple=True, type=click.Path(path_type=Path), metavar="FILE.py",
                 help="Python file with classes that the model's file names; repeatable."),
    click.option("--outputs", metavar="NAME,…", help="Names of the tensors to keep, for a frozen graph."),
    click.option("--signature", default="", metavar="NAME", help="Which signature of a SavedModel."),
    click.option("--trust", is_flag=True, help="Allow executing what the model file contains."),
    click.option("--trace", is_flag=True, help="Convert the one path that the example takes."),
    click.option("--rules", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
                 help="Python file with rules for custom operators."),
]  # fmt: skip


def with_read_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options, which it takes together as `read_options`."""

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
        **rest: Any,
    ) -> Any:
        names = tuple(n for n in (outputs or "").split(",") if n)
        read_options = ReadOptions(inputs, model or "", model_args, code, names, signature, trust, trace, rules)
        return command(*args, read_options=read_options, **rest)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options
