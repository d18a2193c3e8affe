"""What each format refuses of the TensorFlow programs, and why: a pattern of the message."""

from __future__ import annotations

_EVERYWHERE = {
    "while_with_a_list": "a list that grows when it is written behind its end",
    "ragged_map": "the rows of a ragged tensor, which have lengths of their own",
}

REFUSED: dict[str, dict[str, str]] = {form: dict(_EVERYWHERE) for form in ("onnx", "tf", "tf-frozen")}
"""By format and program."""
