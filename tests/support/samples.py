"""Sample tests that take too long to run all: one of N by name, and as many as fit into the time.

`pytest -m long --sample 40 --sample-seconds 600` runs every fortieth long test, for as many seconds. A hash of the
names chooses them, so the choice is the same everywhere, and a new test does not change it.

`pytest -m slow --sample-order WORD --sample-seconds 600` orders the modules by a hash with a word. CI passes the
commit's name, so that each commit leaves out different tests; the same word gives the same order.

The seconds limit the run, not a test: tests that have not begun by then are skipped with that reason. A sample in which
every test is skipped proves nothing, and fails.
"""

from __future__ import annotations

import hashlib
import time
import zlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the three options."""
    parser.addoption("--sample", type=int, metavar="N", help="run one of N tests, chosen by their names")
    parser.addoption("--sample-order", metavar="WORD", help="take the modules in an order that is drawn from a word")
    parser.addoption("--sample-seconds", type=float, metavar="S", help="begin no test later than this")


def is_sampled(name: str, one_of: int) -> bool:
    """Return whether a test belongs to the sample of one in N."""
    return zlib.crc32(name.encode()) % one_of == 0


def place_in_order(name: str, word: str) -> bytes:
    """Return the sort key of a test, which is the same for all tests of a module, because they share fixtures."""
    return hashlib.sha256(f"{word} {name.partition('::')[0]}".encode()).digest()


def pytest_configure(config: pytest.Config) -> None:
    """Note the start of the run; workers of xdist, which start later, get it from the controller."""
    began = getattr(config, "workerinput", {}).get("sample_began")
    config.stash[_BEGAN] = time.time() if began is None else began


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Hand the start of the run to a worker."""
    node.workerinput["sample_began"] = node.config.stash[_BEGAN]  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that are not in the sample, and sort the rest."""
    one_of, word = config.getoption("--sample"), config.getoption("--sample-order")
    if one_of:
        others = [item for item in items if not is_sampled(item.nodeid, one_of)]
        items[:] = [item for item in items if is_sampled(item.nodeid, one_of)]
        config.hook.pytest_deselected(items=others)
    if word:
        items.sort(key=lambda item: place_in_order(item.nodeid, word))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that would start too late."""
    seconds = item.config.getoption("--sample-seconds")
    if seconds is not None and time.time() - item.config.stash[_BEGAN] > seconds:
        pytest.skip(f"the {seconds:g} seconds of the sample are over")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if no test has started; only the controller of xdist has the counts of all workers."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--sample-seconds") is None or reporter is None or session.exitstatus:
        return
    if not any(reporter.stats.get(end) for end in ("passed", "xfailed", "xpassed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


_BEGAN = pytest.StashKey[float]()
