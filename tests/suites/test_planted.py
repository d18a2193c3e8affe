"""The score of the verifier (`planted.py`) as a test: no false alarm, no miss.

By default one network, and the frontends that need no other framework's process; all of them with `-m long`.
"""

from __future__ import annotations

import planted
import planted_networks
import planted_readers
import pytest

from convert.parity.verify import unavailable_reason

_QUICK = ("words", *planted_networks.SMALL)
NETWORKS = [pytest.param(n, marks=[] if n in _QUICK else [pytest.mark.long]) for n in planted_networks.NETWORKS]


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_planted_defects_are_found_and_clean_pairs_pass(network: str) -> None:
    rows = planted.score([network], ["onnx"])
    assert sum(r["planted"] for r in rows) >= (2 if network in planted_networks.SMALL else 8)
    assert sum(not r["planted"] for r in rows) == 1
    wrong = [r["what"] for r in rows if r["accepted"]["ours"] is r["planted"]]
    assert wrong == []


QUICK = ("onnx 11", "onnx 11, float32 only", "onnx 20")
READERS = [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.long]) for n in planted_readers.NAMES]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_errors_of_readers_are_found_and_clean_readings_pass(name: str) -> None:
    if name == "caffe2" and (missing := unavailable_reason("caffe2")):
        pytest.skip(missing)
    rows = planted.score_reader(name)
    assert sum(r["planted"] for r in rows) >= 4
    assert [r["what"] for r in rows if r["accepted"]["ours"] is r["planted"]] == []
