"""Images as inputs: read with Pillow, resized and normalized only as requested."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import BadInput, ConvertError, UsageError

_SYNTAX = "for instance 224x224,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,layout=nchw"
_MODES = {"rgb": "RGB", "bgr": "RGB", "gray": "L"}
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "AVIF", "PPM", "JPEG2000", "TGA", "ICO", "DIB", "PCX", "SGI",
            "QOI")  # fmt: skip
"""Formats that Pillow decodes itself. For PostScript it starts Ghostscript, which executes the file."""
_FILTERS = ("nearest", "bilinear", "bicubic", "lanczos")


@dataclass(frozen=True)
class ImagePreparation:
    """The conversion of an image to an array: (pixel / scale − mean) / std, in the layout and dtype of the model's
    input.

    size: height and width to resize to (without cropping); None keeps the size. mean, std: one number, or one for each
    channel. channels: rgb, bgr or gray. resize: the filter. input: the model's input, by default the first.
    """

    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float = 255.0
    layout: str = "nchw"
    channels: str = "rgb"
    resize: str = "bilinear"
    dtype: str = "float32"
    input: str = ""


def parse_preparation(text: str) -> ImagePreparation:
    """Read `HEIGHTxWIDTH,KEY=VALUE,…` with the fields of `ImagePreparation`. Raises `UsageError` for anything else."""
    fields: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        size = re.fullmatch(r"(?:size=)?(\d+)x(\d+)", part)
        key, _, value = part.partition("=")
        if size:
            fields["size"] = (int(size[1]), int(size[2]))
        elif key in ("mean", "std"):
            fields[key] = tuple(_parse_number(v, part) for v in value.split(":"))
        elif key == "scale":
            fields[key] = _parse_number(value, part)
        elif value in _CHOICES.get(key, ()) or (key == "input" and value):
            fields[key] = value
        else:
            known = "; ".join(f"{k}={'|'.join(v)}" for k, v in _CHOICES.items())
            raise UsageError(f"--image-as does not know {part!r}", hint=f"{_SYNTAX}; mean, std, scale, input; {known}")
    found = ImagePreparation(**fields)
    count = 1 if found.channels == "gray" else 3
    wrong = [n for n in ("mean", "std") if len(getattr(found, n)) not in (1, count)]
    if wrong or 0 in found.std or found.scale == 0 or (found.size and 0 in found.size):
        what = f"{wrong[0]} needs one number for each of {count} channels" if wrong else "std, scale or a size is 0"
        raise UsageError(f"--image-as {text}: {what}", hint=_SYNTAX)
    return found


_CHOICES = {
    "layout": ("nchw", "nhwc"),
    "channels": tuple(_MODES),
    "resize": _FILTERS,
    "dtype": ("float32", "float64", "float16", "uint8"),
}


def _parse_number(text: str, part: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--image-as: {part!r} holds no number", hint=_SYNTAX) from None


def image_batch(paths: Sequence[Path], how: ImagePreparation) -> dict[Any, np.ndarray]:
    """Return one batch of images as inputs by name (or by index 0): float arrays [n,c,h,w] or [n,h,w,c].

    Raises `ConvertError` without Pillow, `BadInput` for a file that is no image, and `UsageError` for different sizes.
    """
    arrays = [_prepare_picture(path, how) for path in paths]
    sizes = {a.shape for a in arrays}
    if len(sizes) > 1:
        raise UsageError("the images have different sizes", hint="give one with --image-as HEIGHTxWIDTH")
    return {how.input or 0: np.stack(arrays)}


def _prepare_picture(path: Path, how: ImagePreparation) -> np.ndarray:
    pixels = _pixels(path, how).astype(np.float64)
    if how.channels == "bgr":
        pixels = pixels[..., ::-1]
    array = (pixels / how.scale - np.array(how.mean)) / np.array(how.std)
    if how.dtype == "uint8":
        array = np.clip(np.rint(array), 0, 255)
    array = array.transpose(2, 0, 1) if how.layout == "nchw" else array
    return np.ascontiguousarray(array.astype(how.dtype))


def _pixels(path: Path, how: ImagePreparation) -> np.ndarray:
    """Return the bytes [h,w,c] of an image, rotated as its camera recorded."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ConvertError("reading images needs Pillow", hint="pip install 'convert-models[images]'") from None
    if not path.is_file():
        raise BadInput(f"{path} is not a file")  # a pipe would be waited for
    try:
        with warnings.catch_warnings(), Image.open(path, formats=_FORMATS) as file:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # Pillow's own limit is twice as high
            image = ImageOps.exif_transpose(file).convert(_MODES[how.channels])
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadInput(f"{path} is not a readable image: {error}") from None
    if how.size is not None:
        height, width = how.size
        image = image.resize((width, height), getattr(Image.Resampling, how.resize.upper()))
    array = np.asarray(image)
    return array[..., None] if array.ndim == 2 else array
