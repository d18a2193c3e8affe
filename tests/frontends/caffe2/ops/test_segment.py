"""The rules of `frontends/caffe2/ops/segment.py`: embeddings in bags, and operators on lengths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from convert.frontends import caffe2

from convert.errors import Unsupported
from convert.graph.metadata import RANGE_KEY
from convert.outcome.report import Report
from convert.parity.inputs.feeds import generate_feeds
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.caffe2_support import hand_written
from tests.support.cases import Case, case, f32, i64, params

# Three rows of four bytes, followed by scale and bias.
FUSED = np.concatenate(
    [
        np.arange(12, dtype=np.uint8).reshape(3, 4) * 20,
        np.array([[0.5, -1], [0.25, 2], [1, 0]], np.float32).view(np.uint8).reshape(3, 8),
    ],
    axis=1,
)
PLACES = np.array([0, 2, 1, 1, 0], np.int64)
LENGTHS = np.array([2, 0, 3], np.int32)
ROWS = params(
    [
        *(case(name, f32(5, 4), LENGTHS) for name in ("LengthsSum", "LengthsMean", "LengthsMax")),
        case("LengthsMax", f32(5), LENGTHS).named("numbers"),
        case("LengthsSum", f32(5, 2, 3), LENGTHS).named("matrices"),
        case("LengthsWeightedSum", f32(5, 4), f32(5), LENGTHS),
        *(
            case(name, f32(7, 4), i64(5, low=0, high=6), LENGTHS)
            for name in ("SparseLengthsSum", "SparseLengthsMean")
        ),
        case("SparseLengthsSum", f32(7, 4), np.array([0, 6, 6, 1, 2], np.int32), LENGTHS).named("int32"),
        case("SparseLengthsWeightedSum", f32(7, 4), f32(5), i64(5, low=0, high=6), LENGTHS),
        case("SparseLengthsSumFused8BitRowwise", FUSED, PLACES, LENGTHS, weights=[0]),
        case("SparseLengthsMeanFused8BitRowwise", FUSED, PLACES, LENGTHS, weights=[0]),
        case("SparseLengthsWeightedSumFused8BitRowwise", FUSED, f32(5), PLACES, LENGTHS, weights=[0]),
        *(
            case("UnsortedSegmentSum", f32(5, 4), np.array([2, 0, 2, 3, 0], np.int32), **more)
            for more in ({}, {"num_segments": 6})
        ),
        case("SortedSegmentSum", f32(5, 4), np.array([0, 0, 1, 2, 2], np.int32)),
        case("LengthsToSegmentIds", LENGTHS),
        case("LengthsToRanges", LENGTHS),
        case("LengthsToOffsets", LENGTHS),
        case("LengthsToOffsets", LENGTHS, include_last_offset=1).named("with the end"),
        case("PackSegments", LENGTHS, f32(5, 4)),
        case("PackSegments", LENGTHS, f32(5), return_presence_mask=1, outputs=2).named("mask"),
        case("PackSegments", LENGTHS, f32(5, 2), max_length=2, pad_minf=1).named("cut"),
    ]
)  # fmt: skip


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)


def test_lengths_are_drawn_that_add_up_to_the_rows(tmp_path: Path) -> None:
    job = hand_written(tmp_path / "net.caffe2", "LengthsSum", [f32(5, 4), LENGTHS], {})
    options = Options(inputs=tuple(map(parse_input, ("x0:float32[n,4]", "x1:int32[batch]"))))
    model = caffe2.read(Source("caffe2", job.net), options, Report("convert"))
    assert json.loads(model.graph.inputs[1].metadata_props[RANGE_KEY]) == [0, "n", "partition"]
    for feed in generate_feeds(model):
        assert feed.arrays["x1"].min() >= 0
        assert feed.arrays["x1"].sum() == len(feed.arrays["x0"])


def test_integers_have_no_infinity_to_begin_with(tmp_path: Path) -> None:
    rows = np.arange(20, dtype=np.int32).reshape(5, 4)
    job = hand_written(tmp_path / "net.caffe2", "LengthsMax", [rows, LENGTHS], {})
    options = Options(inputs=tuple(map(parse_input, ("x0:int32[5,4]", "x1:int32[3]"))))
    with pytest.raises(Unsupported, match="segments of int32, which has no infinity"):
        caffe2.read(Source("caffe2", job.net), options, Report("convert"))
