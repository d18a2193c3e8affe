"""Run tests as on other processors.

    python tests/suites/processors.py [--settings AVX2 SSE4 …] [--workers 2] [PYTEST'S ARGUMENTS]

Runs pytest once under each setting of `tests/support/processors.py`, by default all quick tests:

    python tests/suites/processors.py --settings SSE4 tests/convert/reference tests/frontends/jax -m "slow or not slow"

Prints a row for each setting, followed by the tests that failed, and the sums at the end. The exit code is 1 if one
failed, or if pytest could not run. A setting cannot add instructions: "AVX-512" on a processor without them equals
"this one".
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.support.processors import PROCESSORS  # noqa: E402

_COUNT = re.compile(r"(\d+) (passed|failed|error|skipped)")


def counts(told: str) -> dict[str, int]:
    """Return the numbers of the last line of pytest: passed, failed, skipped and errors."""
    last = next((line for line in reversed(told.splitlines()) if _COUNT.search(line)), "")
    return {word: int(number) for number, word in _COUNT.findall(last)}


def run_tests(setting: str, arguments: Sequence[str], workers: str) -> tuple[int, str]:
    """Return the exit code and the output of pytest under a setting."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-rfE", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **PROCESSORS[setting]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def main() -> None:
    """Print a row for each setting, and the failed tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", choices=PROCESSORS, default=list(PROCESSORS))
    parser.add_argument("--workers", default="auto", help="processes that run tests (pytest's -n)")
    options, arguments = parser.parse_known_args()
    failed, sums = False, Counter[str]()
    print(f"{'setting':12}{'passed':>8}{'failed':>8}{'skipped':>9}")
    for setting in options.settings:
        code, told = run_tests(setting, arguments, options.workers)
        found = counts(told)
        wrong = found.get("failed", 0) + found.get("error", 0)
        sums.update(passed=found.get("passed", 0), failed=wrong)
        print(f"{setting:12}{found.get('passed', 0):>8}{wrong:>8}{found.get('skipped', 0):>9}", flush=True)
        if code:
            failed = True
            lines = [line for line in told.splitlines() if line.startswith(("FAILED", "ERROR"))]
            print("\n".join(lines) or told[-2000:], flush=True)
    print(f"{len(options.settings)} settings: {sums['passed']} passed, {sums['failed']} failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
