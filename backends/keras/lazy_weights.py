"""Layers whose variables have no content: weights go from the model to the file one at a time, and never gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Any, TypeVar

import keras
import numpy as np
from keras import layers

from .constants import Constant

T = TypeVar("T")


def run_without_content(work: Callable[[], T]) -> T:
    """Run `work`, in which Keras's variables have shapes, and initial values only while somebody reads them.

    Keras lists such variables for the thread that it is in, to fill them later: the list goes with a thread of its own.
    """

    def run() -> T:
        with keras.StatelessScope(initialize_variables=False):
            return work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def give_content(weights: Sequence[tuple[layers.Layer, str, Constant]]) -> None:
    """Have layers save, as the variables of these names of attributes, what the constants hold."""
    owners: dict[int, tuple[layers.Layer, dict[int, Constant]]] = {}
    for layer, attribute, content in weights:
        inner, _, name = attribute.rpartition(".")
        owner = attrgetter(inner)(layer) if inner else layer
        variable = getattr(owner, name)
        assert tuple(variable.shape) == tuple(content.shape), (owner.name, name, variable.shape, content.shape)
        owners.setdefault(id(owner), (owner, {}))[1][id(variable)] = content
    for owner, contents in owners.values():
        owner.save_own_variables = _save_with_contents(owner.save_own_variables, contents)


def _save_with_contents(save: Callable[[Any], None], contents: dict[int, Constant]) -> Callable[[Any], None]:
    """A layer's own way to save itself, to a store that gets the contents of variables in their place."""
    return lambda store: save(_FilledStore(store, contents))


class _FilledStore:
    """A store of Keras's that takes variables, and keeps what they are to hold."""

    def __init__(self, store: Any, contents: dict[int, Constant]) -> None:
        self._store, self._contents = store, contents

    def __setitem__(self, key: str, variable: Any) -> None:
        content = self._contents.get(id(variable))
        self._store[key] = variable if content is None else _array(content, variable)


def _array(content: Constant, variable: Any) -> np.ndarray:
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return content.array if dtype == content.dtype else content.array.astype(dtype)
