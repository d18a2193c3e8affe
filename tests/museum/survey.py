"""Convert every model of a folder of archives to ONNX, compare with the numbers of its writer, and print a table.

    python -m tests.museum.survey FOLDER [--only TEXT] [--refused] [--second]

The columns, by archive: models, right, refused, computed as a reference runtime does (`exhibits.outcome`), and wrong.
`--refused` prints the reason for each model. `--second` converts every third model to another format instead, with the
verdict on: PyTorch, TensorFlow and TensorFlow Lite in turn. The columns are then PASS, INCONCLUSIVE, refused and FAIL.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.museum.exhibits import Exhibit, exhibits, outcome, verdict

FIRST = ("right", "refused", "reference", "wrong", "crashed")
SECOND = ("PASS", "INCONCLUSIVE", "refused", "FAIL", "crashed")


def main() -> int:
    """Print the table and return 1 if a number was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="archives and models whose ARCHIVE-NAME contains this text")
    parser.add_argument("--refused", action="store_true", help="print why each model was refused")
    parser.add_argument("--second", action="store_true", help="convert every third model to another format")
    chosen = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for exhibit, to in _tasks(chosen.folder, chosen.only, chosen.second):
        found, reason = _outcome(exhibit, to)
        counts.setdefault(exhibit.archive.stem, Counter())[found] += 1
        if found not in ("right", "PASS", "refused") or (found == "refused" and chosen.refused):
            print(f"{found} {exhibit.id} to {to}: {reason}", flush=True)
    columns = SECOND if chosen.second else FIRST
    print(f"| archive | models | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for name, found in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"| {name} | {' | '.join(str(n) for n in (found.total(), *(found[key] for key in columns)))} |")
    return any(found["wrong"] or found["FAIL"] for found in counts.values())


def _tasks(folder: Path, only: str, second: bool) -> Iterator[tuple[Exhibit, str]]:
    """Yield the models, each with the format that it is converted to."""
    found = (exhibit for path in sorted(folder.glob("[!.]*.zip")) for exhibit in exhibits(path) if only in exhibit.id)
    if second:
        return zip(itertools.islice(found, 0, None, 3), itertools.cycle(("torch", "tf", "tflite")), strict=False)
    return zip(found, itertools.repeat("onnx"), strict=False)


def _outcome(exhibit: Exhibit, to: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return outcome(exhibit, Path(folder)) if to == "onnx" else verdict(exhibit, Path(folder), to)
        except Exception:
            return "crashed", traceback.format_exc(limit=-4)


if __name__ == "__main__":
    sys.exit(main())
