"""Convert every model of a folder of archives to ONNX, compare with the numbers of its writer, and print a table.

    python -m tests.museum.survey FOLDER [--only TEXT] [--refused]

The columns: models read, right, refused, and wrong, by archive. `--refused` prints the reason for each model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from tests.museum.exhibits import Exhibit, exhibits, outcome


def main() -> int:
    """Print the table and return 1 if a number was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="archives and models whose ARCHIVE-NAME contains this text")
    parser.add_argument("--refused", action="store_true", help="print why each model was refused")
    chosen = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for archive in sorted(chosen.folder.glob("[!.]*.zip")):
        for exhibit in exhibits(archive):
            if chosen.only in exhibit.id:
                found, reason = _outcome(exhibit)
                counts.setdefault(archive.stem, Counter())[found] += 1
                if found in ("wrong", "crashed") or (found == "refused" and chosen.refused):
                    print(f"{found} {exhibit.id}: {reason}", flush=True)
    print("| archive | models | right | refused | wrong | crashed |\n|---|---|---|---|---|---|")
    for name, found in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        cells = [found.total(), *(found[key] for key in ("right", "refused", "wrong", "crashed"))]
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    return any(found["wrong"] for found in counts.values())


def _outcome(exhibit: Exhibit) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return outcome(exhibit, Path(folder))
        except Exception:
            return "crashed", traceback.format_exc(limit=-4)


if __name__ == "__main__":
    sys.exit(main())
