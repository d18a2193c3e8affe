"""JSON of a file, parsed once its values are counted: a few bytes of it become a hundred in memory."""

from __future__ import annotations

import json
from typing import Any

from convert import limits
from convert.errors import ResourceLimit


def parse_json(text: bytes | str, label: str) -> Any:
    """The value of a JSON text. Raises `ResourceLimit` for one of too many values, ValueError for what is no JSON.

    Values stand behind a comma or the beginning of a list or of an object; signs within strings count as well.
    """
    signs = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
    count = sum(map(text.count, signs))  # type: ignore[arg-type]
    if count > limits.JSON_VALUES:
        raise ResourceLimit(
            f"{label} has about {count:,} values of JSON; no more than {limits.JSON_VALUES:,} are read",
            hint="get the file again; if it is genuine, convert it on a machine with much memory, from Python, with a "
            "larger convert.limits.JSON_VALUES",
        )
    return json.loads(text)
