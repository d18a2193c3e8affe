"""PyTorch's own operator table: a bounded sample in every run, the whole table behind `long`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from opinfo import entries, outcomes, summary
from opinfo_judge import PASSED, judged, samples
from opinfo_ties import settled

from tests.support.marks import slow_but

# One entry of each topic, and entries that other converters lack.
CHOSEN = (
    "add",
    "as_strided",
    "corrcoef",
    "cummax",
    "cumprod",
    "fft.rfft2",
    "igamma",
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
    "nn.functional.ctc_loss",
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

# Shares of right results among all entries that support the dtype, first sample only; all others are declared gaps.
LEAST = {"float32": 0.98, "float64": 0.98, "float16": 0.98, "bfloat16": 0.98, "int64": 0.99, "bool": 0.99}


@pytest.mark.parametrize("entry", slow_but(CHOSEN, "roll", "searchsorted", "unfold"))
def test_first_samples_of_an_entry(entry: str) -> None:
    """The first two samples of the entry."""
    found = []
    for number, sample in itertools.islice(samples(entry, torch.float32, 1), 2):
        outcome = judged(entry, number, sample, torch.float32)
        if outcome is not None:
            found.append(outcome)
    assert found
    assert [o for o in found if o.verdict not in PASSED] == []


BY_EXAMPLE = ("arange", "cumprod", "fft.fftshift", "linalg.qr", "nn.functional.conv3d", "native_group_norm")


@pytest.mark.parametrize("entry", BY_EXAMPLE)
def test_tensors_as_examples_are_enough(entry: str) -> None:
    """No option is given, and dims are dynamic if possible: entries without inputs, with short dims, and of fixed
    sizes.
    """
    number, sample = next(samples(entry, torch.float32, 1))
    outcome = judged(entry, number, sample, torch.float32, by_example=True)
    assert outcome is not None
    assert outcome.verdict in PASSED, outcome


EQUAL = torch.tensor([[3.0, 1.0, 3.0, 3.0]])
TIES = [([0, 2], True), ([3, 0], True), ([0, 0], False), ([0, 1], False), ([0, 4], False), ([0, -1], False)]


@pytest.mark.parametrize(("indices", "fine"), TIES)
def test_any_of_equal_elements_may_be_pointed_at_but_no_other(indices: list[int], fine: bool) -> None:
    from torch.testing._internal.opinfo.core import SampleInput

    sample = SampleInput(EQUAL, args=(2,))
    values, known = (x.numpy() for x in EQUAL.topk(2))
    found = settled("topk", sample, [values, np.array([indices])], [values, known])[1]
    assert np.array_equal(found, known) == fine


def test_the_indices_of_a_stable_sort_are_those_of_pytorch() -> None:
    from torch.testing._internal.opinfo.core import SampleInput

    sample = SampleInput(EQUAL, kwargs={"stable": True})
    values, known = (x.numpy() for x in EQUAL.sort(stable=True))
    other = known[:, [0, 2, 1, 3]]
    assert settled("sort", sample, [values, other], [values, known])[1] is other


@pytest.mark.long
@pytest.mark.parametrize("dtype", LEAST)
def test_the_whole_table(dtype: str) -> None:
    found = list(outcomes(entries(dtype), dtype))
    print(summary(found))
    assert [o for o in found if o.verdict not in (*PASSED, "gap")] == []
    assert sum(o.verdict in PASSED for o in found) >= LEAST[dtype] * len(found)
