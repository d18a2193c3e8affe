"""PyTorch's own operator table: a bounded sample in every run, the whole behind the marker `long`."""

from __future__ import annotations

import itertools

import pytest
import torch
from opinfo import entries, outcomes, summary
from opinfo_judge import PASSED, judged, samples

# One entry of each topic, and those that other converters miss.
CHOSEN = (
    "add",
    "cummax",
    "cumprod",
    "fft.rfft2",
    "index_put",
    "kthvalue",
    "lgamma",
    "linalg.solve",
    "linalg.svd",
    "masked.softmax",
    "masked_scatter",
    "median",
    "mode",
    "nn.functional.avg_pool2d",
    "nn.functional.embedding_bag",
    "nn.functional.grid_sample",
    "nn.functional.interpolate.bicubic",
    "nn.functional.pixel_unshuffle",
    "nn.functional.scaled_dot_product_attention",
    "roll",
    "scatter_reduce.mean",
    "searchsorted",
    "special.bessel_j0",
    "unfold",
)

# Passed shares of all entries that take the dtype, first sample.
LEAST = {"float32": 0.90}


@pytest.mark.parametrize("entry", CHOSEN)
def test_first_samples_of_an_entry(entry: str) -> None:
    """The first two samples of the entry."""
    found = []
    for number, sample in itertools.islice(samples(entry, torch.float32, 1), 2):
        outcome = judged(entry, number, sample, torch.float32)
        if outcome is not None:
            found.append(outcome)
    assert found
    assert [o for o in found if o.verdict not in PASSED] == []


@pytest.mark.long
@pytest.mark.parametrize("dtype", LEAST)
def test_the_whole_table(dtype: str) -> None:
    found = list(outcomes(entries(dtype), dtype))
    print(summary(found))
    assert [o for o in found if o.verdict == "wrong"] == []
    assert sum(o.verdict in PASSED for o in found) >= LEAST[dtype] * len(found)
