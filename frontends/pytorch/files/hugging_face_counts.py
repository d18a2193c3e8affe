"""Limits what a Hugging Face configuration makes transformers build, by the size of the folder's weights.

A configuration of 1 kB may request any number of layers, or a vocabulary of 2^40. transformers builds a model without
memory, but then allocates memory for each weight missing in the folder, before it reports which ones are missing.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch.nn.modules import module as registry

from convert import limits
from convert.errors import BadInput, ResourceLimit

from .hugging_face_safety import configurations, entries

_COUNTS = re.compile(r"(.*_)?(labels|layers?|blocks?|depths?|stages|experts)")
"""Keys of numbers for which configuration classes create lists before there is a model."""
_QUANTIZATION = re.compile(r"(quantization|compression)_config")
_PER_BYTE, _QUANTIZED = 4, 16
"""Elements per byte of weights: float32 has a quarter, and one embedding may occur four times; quantized weights, by
bits.
"""
_HINT = "get config.json and the weights of one model into the folder"


def check_counts(path: Path) -> None:
    """Raise `BadInput` if a configuration has more layers, labels or the like than any model."""
    for file in configurations(path):
        for key, value in entries(json.loads(file.read_bytes())):
            numbers = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, (int, float))]
            if _COUNTS.fullmatch(key) and any(not v <= limits.FOLDER_CONFIG_COUNT for v in numbers):
                raise BadInput(
                    f"{file} says {key} is {max(numbers):,}: more than {limits.FOLDER_CONFIG_COUNT:,} are not taken",
                    hint=_HINT,
                )


@contextmanager
def bounded_by_weights(path: Path) -> Iterator[None]:
    """Raise `ResourceLimit` inside the context if this thread builds a model with more elements or parts than the
    weights allow.
    """
    configs = [json.loads(file.read_bytes()) for file in configurations(path)]
    quantized = any(_QUANTIZATION.fullmatch(key) for config in configs for key, _ in entries(config))
    stored = sum(f.stat().st_size for pattern in ("*.safetensors", "*.bin") for f in path.rglob(pattern) if f.is_file())
    most = limits.FOLDER_SPARE_ELEMENTS + (_QUANTIZED if quantized else _PER_BYTE) * stored
    thread, seen = threading.get_ident(), set[tuple[int, str]]()
    elements = 0

    def count(owner: Any, name: str, part: Any) -> None:
        nonlocal elements
        if threading.get_ident() != thread or part is None or (id(owner), name) in seen:
            return
        seen.add((id(owner), name))
        elements += math.prod(getattr(part, "shape", (0,)))
        if elements > most:
            text = f"{path} has {stored:,} bytes of weights, and config.json asks for more than {most:,} elements"
            raise ResourceLimit(text, hint=_HINT)
        if len(seen) > limits.FOLDER_MODEL_PARTS:
            text = f"config.json in {path} asks for more than {limits.FOLDER_MODEL_PARTS:,} layers and weights"
            raise ResourceLimit(text, hint=_HINT)

    with ExitStack() as hooks:
        for register in (
            registry.register_module_parameter_registration_hook,
            registry.register_module_buffer_registration_hook,
            registry.register_module_module_registration_hook,
        ):
            hooks.callback(register(count).remove)
        yield
