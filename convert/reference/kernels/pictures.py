"""Reference kernel of ImageDecoder. ONNX's own passes images to every plugin of Pillow, including external programs."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.table import kernel

Array = Any

FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""The formats in the operator's specification (ONNX-20), all of which Pillow decodes itself.

For PostScript, Pillow would start Ghostscript, which executes what is in the file.
"""


@kernel("ImageDecoder")
def image_decoder(count: int, encoded: Array, *, pixel_format: str) -> Array:
    """Return the pixels of an image as bytes [height, width, 3], or [height, width, 1] for Grayscale.

    Raises `Unsupported` without Pillow, and for other formats.
    """
    try:
        from PIL import Image
    except ImportError:
        raise Unsupported("ImageDecoder runs here with Pillow only") from None
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(encoded.tobytes()), formats=FORMATS) as picture:
            # an image with twice as many pixels raises an error
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            pixels = np.asarray(picture.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Unsupported(f"ImageDecoder of data that is not an image: {error}") from None
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels
