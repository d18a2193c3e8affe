"""Measure the imports within each package, as a table: entries, floors, arrows, arrows back and circles.

    python tests/suites/structure.py [--root TREE] [--arrows PACKAGE | --sizes | --meanings]

| column | meaning |
|---|---|
| entry | a file or folder of modules directly in the package, with its `__init__` |
| floors | the longest chain of entries that import one another; a circle counts as one |
| arrow | a pair of entries one of which imports the other, anywhere in it, for type checkers too |
| back | the fewest arrows to remove so that the entries have no circle |
| circles | circles of files in the package, and of its entries |

--root measures another state of the project; --arrows lists the arrows of one package; --sizes lists the functions,
files and folders that are larger than the guides allow; --meanings counts the lines and files of each subject that
several packages write, and of the whole product.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.import_graph import ROOT, TOPS, arrows, arrows_back, circles, entries, floors, name_of

ALWAYS = ("convert/numerics", "convert/runtimes")
"""Packages that have a row though they have few entries."""

FEW = 5
"""Folders with fewer entries have no row."""


def packages(root: Path) -> list[Path]:
    """Return convert/, its folders, and each frontend and backend with its folders."""
    folders = [root / "convert"]
    for top in TOPS:
        inner = sorted(p.parent for p in (root / top).rglob("__init__.py"))
        folders += [p for p in inner if p not in (root / t for t in TOPS)]
    return folders


def row(graph: dict[str, set[str]], folder: Path, root: Path) -> list[str | int]:
    """Return one line of the table."""
    package = name_of(folder, root)
    inside = entries(graph, package)
    modules = {
        m
        for m in graph
        if m == package or (m.startswith(f"{package}.") and m.split(".")[package.count(".") + 1] in inside)
    }
    files = {m: graph[m] & modules for m in modules}
    return [
        folder.relative_to(root).as_posix(), len(inside), floors(inside), sum(map(len, inside.values())),
        arrows_back(inside), len(circles(files)), len(circles(inside)),
    ]  # fmt: skip


GUIDES = {"function": 60, "file": 800, "folder": 25}
"""Guide values: lines of a function, lines of a file, Python files of a folder. A larger one is worth a look, but no
error.
"""


def oversized(root: Path) -> list[tuple[str, int, str]]:
    """Return everything in the product that exceeds its guide, as (kind, size, place), the largest of each kind
    first.
    """
    found: list[tuple[str, int, str]] = []
    for top in TOPS:
        files = sorted((root / top).rglob("*.py"))
        for folder in sorted({file.parent for file in files}):
            found.append(("folder", sum(file.parent == folder for file in files), str(folder.relative_to(root))))
        for file in files:
            text, place = file.read_text("utf-8"), str(file.relative_to(root))
            found.append(("file", len(text.splitlines()), place))
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.append(("function", (node.end_lineno or 0) - node.lineno + 1, f"{place}:{node.name}"))
    large = {each for each in found if each[1] > GUIDES[each[0]] and "_pb2" not in each[2]}
    return sorted(large, key=lambda each: (each[0], -each[1], each[2]))


MEANINGS = {
    "recurrent layers": r"recurrent|rnn|lstm|gru|cells|cudnn|projected",
    "quantization": r"quanti|qlinear|steps|integer_products|marks",
    "resize, interpolation": r"resiz|interpol|resample|upsample",
    "slices, gathers, scatters": r"gather|scatter|slice|index|indices",
    "known integers and shapes": r"known|sizes|dims|shape_values|constant_eval|shape_inf|static_shapes|index_trac",
    "windows and pools": r"window|pool|padding|^pads",
    "attention": r"attention|match_heads|heads",
    "grids, regions, boxes": r"grid_sample|sampling|sample$|region|boxes|suppression|image$",
}
"""Subjects that several packages write, each with a pattern for the names of its files."""


def lines_of_meanings(root: Path) -> list[tuple[str, int, int]]:
    """Return lines and number of files for each subject of `MEANINGS`, and for the whole product."""
    sizes = {f: len(f.read_text("utf-8").splitlines()) for top in TOPS for f in sorted((root / top).rglob("*.py"))}
    found = []
    for meaning, pattern in {**MEANINGS, "the whole product": ""}.items():
        own = [n for f, n in sizes.items() if re.search(pattern, f.stem)]
        found.append((meaning, sum(own), len(own)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--arrows", metavar="PACKAGE", help="such as frontends/pytorch")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--meanings", action="store_true")
    chosen = parser.parse_args()
    root = chosen.root.resolve()
    if chosen.sizes:
        for kind, size, place in oversized(root):
            print(f"{kind:<9} {size:>5}  {place}")
        return
    if chosen.meanings:
        print("| meaning | lines | files |")
        print("|---|---|---|")
        for meaning, lines, files in lines_of_meanings(root):
            print(f"| {meaning} | {lines:,} | {files} |")
        return
    graph = arrows(root, typing=True)
    if chosen.arrows:
        for entry, others in entries(graph, name_of(root / chosen.arrows, root)).items():
            print(f"{entry} -> {', '.join(sorted(others)) or '(none)'}")
        return
    print("| package | entries | floors | arrows | back up | circles of files | circles of entries |")
    print("|---|---|---|---|---|---|---|")
    for folder in packages(root):
        line = row(graph, folder, root)
        if int(line[1]) >= FEW or line[0] in ALWAYS:
            print(f"| {' | '.join(map(str, line))} |")
    print(f"\n{len(graph)} modules, {sum(map(len, graph.values()))} arrows, {len(circles(graph))} circles")


if __name__ == "__main__":
    main()
