"""The rows of the TensorFlow tables: a function, its signature, and the sizes that it runs at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class TensorFlowProgram:
    """A function from tensors by name to tensors by name; `build` makes it, with its variables if it has any."""

    name: str
    build: Callable[[], Callable[..., Any]]
    signature: Mapping[str, tf.TensorSpec]
    feeds: Sequence[Feeds]
    eager: bool = False

    def concrete(self) -> Any:
        """Return the function as TensorFlow traced it for the signature."""
        function = self.build()

        def named(**inputs: tf.Tensor) -> Mapping[str, tf.Tensor]:
            found = function(**inputs)
            return found if isinstance(found, Mapping) else {"y": found}

        specs = {name: tf.TensorSpec(s.shape, s.dtype, name) for name, s in self.signature.items()}
        found = tf.function(named).get_concrete_function(**specs)
        found.kept = function  # the reference keeps the module and its variables alive
        return found

    def run(self, concrete: Any) -> list[Feeds]:
        """Return TensorFlow's outputs for each input set, operator by operator if its fused kernels are wrong."""
        found = []
        for feed in self.feeds:
            inputs = {name: tf.constant(array) for name, array in feed.items()}
            outputs = concrete.kept(**inputs) if self.eager else concrete(**inputs)
            outputs = outputs if isinstance(outputs, Mapping) else {"y": outputs}
            found.append({name: _with_pairs(y.numpy()) for name, y in outputs.items()})
        return found


def _with_pairs(array: np.ndarray) -> np.ndarray:
    """Return complex numbers as real and imaginary parts in a last dim of 2, as graphs return them."""
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array


def program(
    name: str,
    function: Callable[..., Any],
    signature: Mapping[str, Any],
    *sizes: Mapping[str, int],
    given: Mapping[str, Sequence[Any]] | None = None,
    below: int = 3,
    build: bool = False,
    eager: bool = False,
) -> TensorFlowProgram:
    """Return a row of the table. ¶ signature: the dims of each input, where names are dynamic, and a dtype at the end
    unless it is float32.

    sizes: numbers for the named dims, one feed each. given: the content of an input, one for each of `sizes`.
    build: `function` makes the function, rather than being it. eager: TensorFlow is asked operator by operator.
    """
    specs: dict[str, tf.TensorSpec] = {}
    feeds: list[Feeds] = [{} for _ in sizes or ({},)]
    for key, dims in signature.items():
        kind = dims[-1] if dims and isinstance(dims[-1], tf.DType) else tf.float32
        shape = [d for d in dims if not isinstance(d, tf.DType)]
        specs[key] = tf.TensorSpec([d if isinstance(d, int) else None for d in shape], kind)
        for i, (size, feed) in enumerate(zip(sizes or ({},), feeds, strict=True)):
            random = np.random.default_rng(i)
            if given is not None and key in given:
                feed[key] = np.asarray(given[key][i], kind.as_numpy_dtype)
                continue
            full = [d if isinstance(d, int) else size[d] for d in shape]
            if kind.is_floating:
                feed[key] = random.normal(size=full).astype(kind.as_numpy_dtype)
            elif kind == tf.bool:
                feed[key] = random.integers(0, 2, full).astype(bool)
            else:
                feed[key] = random.integers(0, below, full).astype(kind.as_numpy_dtype)
    return TensorFlowProgram(name, function if build else lambda: function, specs, feeds, eager)
