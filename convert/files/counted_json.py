"""Parses JSON of a file after counting its values, because a few bytes of text become a hundred bytes in memory."""

from __future__ import annotations

import json
from typing import Any

from convert import limits
from convert.errors import ResourceLimit


def parse_json(text: bytes | str, label: str) -> Any:
    """Return the value of a JSON text.

    Values are counted by commas and opening brackets; those in strings count, too. Raises `ResourceLimit` for too many
    values, and ValueError for invalid JSON.
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
