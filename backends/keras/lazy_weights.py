"""Layers whose variables have no content: weights go from the model to the file one at a time."""

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
    """Run `work` with Keras variables whose initial values exist only while they are read.

    Keras lists such variables per thread to fill them later, so the work runs in its own thread, which ends with the
    list.
    """

    def run() -> T:
        with keras.StatelessScope(initialize_variables=False):
            return work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def give_content(weights: Sequence[tuple[layers.Layer, str, Constant]]) -> None:
    """Make layers save the content of the constants in place of the variables with these attribute names."""
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
    """Return a layer's own save method, wrapped so that the store gets the content in place of the variables."""
    return lambda store: save(_FilledStore(store, contents))


class _FilledStore:
    """A Keras store that accepts variables and stores their content."""

    def __init__(self, store: Any, contents: dict[int, Constant]) -> None:
        self._store, self._contents = store, contents

    def __setitem__(self, key: str, variable: Any) -> None:
        content = self._contents.get(id(variable))
        self._store[key] = variable if content is None else _array(content, variable)


def _array(content: Constant, variable: Any) -> np.ndarray:
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return content.array if dtype == content.dtype else content.array.astype(dtype)
