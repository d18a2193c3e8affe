"""The verifier's own score as a test: no false alarm, no miss. One network by default, all of them with `-m long`."""

from __future__ import annotations

import planted
import planted_networks
import pytest

NETWORKS = [pytest.param(n, marks=[] if n == "words" else [pytest.mark.long]) for n in planted_networks.NETWORKS]


@pytest.mark.parametrize("network", NETWORKS)
def test_planted_defects_are_found_and_clean_pairs_pass(network: str) -> None:
    rows = planted.score([network], ["onnx"])
    assert sum(r["planted"] for r in rows) >= 8
    assert sum(not r["planted"] for r in rows) == 1
    wrong = [r["what"] for r in rows if r["accepted"]["ours"] is r["planted"]]
    assert wrong == []
