"""What processes of ours ask of threads, where the user does not say."""

from __future__ import annotations

import os

import pytest

from convert.interpreter import set_thread_variables

CASES = {
    "nothing": ({}, 8, {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "4"}),
    "one_core": ({}, 1, {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}),
    "a_policy": ({"OMP_WAIT_POLICY": "active"}, 2, {"OMP_WAIT_POLICY": "active", "OPENBLAS_NUM_THREADS": "1"}),
    "a_number": ({"OMP_NUM_THREADS": "3"}, 8, {"OMP_WAIT_POLICY": "passive"}),
    "both_numbers": (
        {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "2"},
        8,
        {"OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "2"},
    ),
}
"""What the user has set, the cores that there are, and what is set then."""


@pytest.mark.parametrize("case", CASES)
def test_threads_wait_asleep_and_leave_room(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, cores, wanted = CASES[case]
    for name in ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # so that what is set below goes with the test
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    set_thread_variables()
    assert {n: os.environ.get(n) for n in ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS")} == {
        "OMP_WAIT_POLICY": None, "OPENBLAS_NUM_THREADS": None, **wanted,
    }  # fmt: skip
