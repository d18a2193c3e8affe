"""Bounds what the configuration of a Hugging Face folder makes transformers build, by its own weights.

A configuration of 1 kB may ask for layers without end, or for a vocabulary of 2^40. transformers builds a model without
memory, and then takes some for each weight that the folder lacks, before it says which those are.
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
"""Keys of numbers for which the classes of configurations make a list each, before there is a model."""
_QUANTIZATION = re.compile(r"(quantization|compression)_config")
_PER_BYTE, _QUANTIZED = 4, 16
"""Elements for a byte of weights: float32 has a quarter, one embedding may be at four places; quantized, of bits."""
_HINT = "get config.json and the weights of one model into the folder"


def check_counts(path: Path) -> None:
    """Raise `BadInput` where a configuration counts more layers, labels or the like than any model has."""
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
    """Inside, a model that this thread builds has no more elements than the folder has weights for, nor parts without
    end. Raises `ResourceLimit`.
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
