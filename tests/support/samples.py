"""Samples of tests that take too long to run whole: one of N by their names, and as many as there is time for.

`pytest -m long --sample 40 --sample-seconds 600` runs every fortieth long test, for as many seconds. Which ones is told
by a hash of their names, so it is the same choice everywhere, and a new test moves no other.

`pytest -m slow --sample-order WORD --sample-seconds 600` takes the modules in an order that is drawn from a word: CI
gives the commit's name, so that each commit leaves out others, and whoever gives the same word has the same order.

The seconds bound a run, not a test: what has not begun by then is skipped, and says so. A sample of nothing but skipped
tests has shown nothing, and fails.
"""

from __future__ import annotations

import hashlib
import time
import zlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The three options."""
    parser.addoption("--sample", type=int, metavar="N", help="run one of N tests, chosen by their names")
    parser.addoption("--sample-order", metavar="WORD", help="take the modules in an order that is drawn from a word")
    parser.addoption("--sample-seconds", type=float, metavar="S", help="begin no test later than this")


def is_sampled(name: str, one_of: int) -> bool:
    """Whether a test is among the one of N that are run."""
    return zlib.crc32(name.encode()) % one_of == 0


def place_in_order(name: str, word: str) -> bytes:
    """What tests are sorted by: the same for all of a module, which share what its fixtures make."""
    return hashlib.sha256(f"{word} {name.partition('::')[0]}".encode()).digest()


def pytest_configure(config: pytest.Config) -> None:
    """Workers of xdist start later than the run does, and are told when that was."""
    began = getattr(config, "workerinput", {}).get("sample_began")
    config.stash[_BEGAN] = time.time() if began is None else began


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Hand the start of the run to a worker."""
    node.workerinput["sample_began"] = node.config.stash[_BEGAN]  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the others, and bring the rest into its order."""
    one_of, word = config.getoption("--sample"), config.getoption("--sample-order")
    if one_of:
        others = [item for item in items if not is_sampled(item.nodeid, one_of)]
        items[:] = [item for item in items if is_sampled(item.nodeid, one_of)]
        config.hook.pytest_deselected(items=others)
    if word:
        items.sort(key=lambda item: place_in_order(item.nodeid, word))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what would begin too late."""
    seconds = item.config.getoption("--sample-seconds")
    if seconds is not None and time.time() - item.config.stash[_BEGAN] > seconds:
        pytest.skip(f"the {seconds:g} seconds of the sample are over")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where no test has begun; workers of xdist do not know of the others."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--sample-seconds") is None or reporter is None or session.exitstatus:
        return
    if not any(reporter.stats.get(end) for end in ("passed", "xfailed", "xpassed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


_BEGAN = pytest.StashKey[float]()
