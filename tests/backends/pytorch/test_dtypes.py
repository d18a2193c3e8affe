"""Weights share the memory of the source, so that a large model is written without a copy of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from convert.backends.pytorch.dtypes import tensor_from


def mapped(array: np.ndarray, offset: int = 0) -> np.ndarray:
    """Return the array in read-only memory, like that of a mapped file, `offset` bytes behind an aligned place."""
    memory = np.frombuffer(bytes(offset) + array.tobytes(), np.uint8)
    return memory[offset:].view(array.dtype).reshape(array.shape)


LARGE = np.random.default_rng(0).random((600, 700), np.float32)


@pytest.mark.parametrize(
    ("array", "shared"),
    [
        (mapped(LARGE), True),
        (mapped(LARGE).T, True),
        (mapped(LARGE).reshape(60, 10, 700).transpose(2, 0, 1), True),
        (mapped(LARGE)[:, ::2], False),
        (mapped(LARGE)[::-1], False),
        (mapped(LARGE[:4, :4]).T, False),
        (mapped(LARGE, 2), False),
        (mapped(LARGE.astype(np.int8)).astype(bool), True),
    ],
    ids=["plain", "transposed", "three dims", "every second", "reversed", "small", "not aligned", "booleans"],
)
def test_what_is_only_read_shares_memory_without_gaps(array: np.ndarray, shared: bool) -> None:
    found = tensor_from(array, only_read=True)
    assert (found.data_ptr() == array.ctypes.data) is shared
    np.testing.assert_array_equal(found.numpy(), array)


def test_what_may_be_written_to_is_a_copy_of_read_only_memory() -> None:
    found = tensor_from(mapped(LARGE))
    assert found.data_ptr() != mapped(LARGE).ctypes.data
    found += 1
    torch.testing.assert_close(found, torch.from_numpy(LARGE + 1))
