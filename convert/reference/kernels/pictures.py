"""Reference kernel of ImageDecoder: ONNX's own gives a picture to whatever Pillow has for it, programs included."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.table import kernel

Array = Any

FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""Those that the operator is specified for (ONNX-20), all of which Pillow decodes itself: for PostScript it starts
Ghostscript, which executes what is in the file."""


@kernel("ImageDecoder")
def image_decoder(count: int, encoded: Array, *, pixel_format: str) -> Array:
    """Bytes [height, width, 3] of a picture, or [height, width, 1] for Grayscale. Raises `Unsupported`."""
    try:
        from PIL import Image
    except ImportError:
        raise Unsupported("ImageDecoder runs here with Pillow only") from None
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(encoded.tobytes()), formats=FORMATS) as picture:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # it is an error from twice as many pixels
            pixels = np.asarray(picture.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Unsupported(f"ImageDecoder of what is no picture: {error}") from None
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels
