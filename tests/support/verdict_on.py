"""The verdict on outputs that a test made by hand, with what rounding does to the graph."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.outcome.verdict import Verdict
from convert.parity.evidence import RunOutputs
from convert.parity.explain.rounding import Estimates
from convert.parity.inputs.feeds import Feed
from convert.parity.judge import Evidence, judge
from convert.parity.method import VerifyMethod


def verdict_on(
    graph: ir.Model,
    feeds: Sequence[Feed],
    runs: RunOutputs,
    method: VerifyMethod | None = None,
    *,
    steps: str = "",
    integers: bool = False,
) -> Verdict:
    """Return the verdict of `convert.parity.verify` on given runs of both sides."""
    estimates = Estimates(graph, feeds, integers)
    return judge(Evidence(graph, feeds, runs, method or VerifyMethod(), estimates, steps=steps))
