"""The metadata of TensorFlow Lite that options ask for: labels of an output, and how pixels become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from convert.errors import UsageError
from convert.graph.values import known_dims
from convert.request.image_inputs import ImagePreparation, parse_preparation
from convert.request.options import Options

from ..options import IMAGE_INPUT, LABELS
from .metadata import FileMetadata, Picture


def io_metadata(
    model: ir.Model, inputs: Sequence[str], outputs: Sequence[str], options: Options
) -> dict[str, Any] | None:
    """Return the metadata that `--labels` and `--image-input` ask for, as plain data; None for neither.

    Raises `UsageError` for labels that fit no output, and for an input that the model does not have.
    """
    file, image = LABELS.of(options), IMAGE_INPUT.of(options)
    if not file and not image:
        return None
    found = FileMetadata(list(inputs), list(outputs))
    if file:
        found.labels = _read_labels(Path(file))
        found.labelled = _labelled(model, outputs, len(found.labels), file)
    if image:
        found.picture = _picture(inputs, parse_preparation(image))
    return found.to_dict()


_HINT = "a text file with a label in each line"


def _read_labels(path: Path) -> list[str]:
    if path.exists() and not path.is_file():  # a pipe or a device may never end
        raise UsageError(f"--labels {path} is not a file", hint=_HINT)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--labels {path} cannot be read: {error}", hint="a text file with a label in each line"
        ) from None
    labels = [line.strip() for line in lines]
    while labels and not labels[-1]:
        labels.pop()
    if not labels:
        raise UsageError(f"--labels {path} holds no labels", hint=_HINT)
    return labels


def _labelled(model: ir.Model, outputs: Sequence[str], count: int, file: str) -> str:
    """Return the first output whose last dim is, or may be, `count`, the number of labels."""
    sizes = [(known_dims(value) or (None,))[-1] for value in model.graph.outputs]
    for name, size in zip(outputs, sizes, strict=True):
        if size == count:
            return name
    for name, size in zip(outputs, sizes, strict=True):
        if not isinstance(size, int):
            return name
    shown = ", ".join(f"{name}: {size}" for name, size in zip(outputs, sizes, strict=True))
    raise UsageError(
        f"--labels {file} has {count} labels, and no output has as many numbers in its last dim ({shown})",
        hint="a label in each line, in the order of the numbers",
    )


def _picture(inputs: Sequence[str], image: ImagePreparation) -> Picture:
    """Return the image in TensorFlow Lite's terms: mean and std refer to pixels from 0 to 255."""
    name = image.input or inputs[0]
    if name not in inputs:
        raise UsageError(f"--image-input names the input {name!r}", hint=f"the model's are {', '.join(inputs)}")
    mean, std = ([number * image.scale for number in numbers] for numbers in (image.mean, image.std))
    return Picture(name, mean, std, image.channels, image.size)
