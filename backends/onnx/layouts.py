"""Where each runtime of Hugging Face models looks for the model in a folder, and for the files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convert.outcome.report import Report

_TEXT = "tokenizer.json"
_MEDIA = "preprocessor_config.json"


@dataclass(frozen=True)
class Layout:
    """The place of the ONNX files in a folder, and the files that the runtime reads in the folder itself.

    folder: relative to the folder of the model. In a folder `onnx`, the dtype is a part of the names. always: files
    that every model needs. by_input: files that a model with an input of this name needs.
    """

    folder: str
    always: tuple[str, ...] = ("config.json",)
    by_input: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def files(self, inputs: Iterable[str]) -> tuple[str, ...]:
        """Return the files that the runtime reads beside a model with these inputs."""
        return tuple(dict.fromkeys([*self.always, *(f for name in inputs for f in self.by_input.get(name, ()))]))


_INPUTS_OF_MEDIA = ("pixel_values", "input_features", "input_values")

LAYOUTS = {
    "genai": Layout("", ("genai_config.json",), {"input_ids": (_TEXT, "tokenizer_config.json")}),
    "optimum": Layout(""),
    "transformers.js": Layout(
        "onnx",
        by_input={
            "input_ids": (_TEXT, "tokenizer_config.json"),
            **dict.fromkeys(_INPUTS_OF_MEDIA, (_MEDIA,)),
        },
    ),
    "tei": Layout("", by_input={"input_ids": (_TEXT,)}),
}
"""Runtimes by the value of `--runtime`. optimum reads the configuration only; its users load tokenizers themselves."""


def note_missing_files(
    runtime: str, inputs: Iterable[str], companions: Mapping[str, Any], folder: Path, report: Report
) -> None:
    """Note which files `runtime` needs in `folder`, if neither the `companions` nor the folder have them."""
    needed = LAYOUTS[runtime].files(inputs)
    missing = [name for name in needed if name not in companions and not (folder / name).exists()]
    if missing:
        report.note(
            f"{runtime} also reads {', '.join(missing)}, which the source does not have: copy them to {folder}",
            code="companions-missing",
        )
