"""Parses the message in a SavedModel's folder, in binary or text form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format

from convert.errors import BadInput, Unsupported

from .protos import MESSAGES, open_buffer, parse_message


def parse_saved_model(folder: Path) -> tuple[memoryview, Any]:
    """Return the bytes of `saved_model.pb` and its message, or no bytes and that of `saved_model.pbtxt`. Raises
    `BadInput`.
    """
    binary, text = folder / "saved_model.pb", folder / "saved_model.pbtxt"
    if binary.is_file():
        buffer = open_buffer(binary)
        return buffer, parse_message(buffer, "SavedModel", str(binary))
    if text.is_file():
        try:
            message = text_format.Parse(text.read_text("utf-8"), MESSAGES["SavedModel"](), allow_unknown_field=True)
        except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
            summary = " ".join(str(error).split())[:200]
            raise BadInput(f"{text} is not a SavedModel: {summary}", hint="is the file complete?") from error
        return memoryview(b""), message
    if (folder / "saved_model.cpb").is_file():
        raise Unsupported(
            f"{folder} is a SavedModel in chunks (.cpb)", hint="save it without experimental_image_format"
        )
    raise BadInput(f"{folder} holds no saved_model.pb", hint="give the folder that tf.saved_model.save wrote")
