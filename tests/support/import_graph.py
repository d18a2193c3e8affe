"""Who imports whom: the modules of a tree, the arrows between them, circles, and the same for the entries of a room.

An entry of a room is a file or a folder of modules in it, its own `__init__` among them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("convert", "frontends", "backends")

Arrows = Mapping[str, set[str]]


def sources(root: Path = ROOT, *, generated: bool = False) -> Iterator[Path]:
    """All modules that are packaged; generated: also those that protoc has written."""
    for top in TOPS:
        yield from sorted(p for p in (root / top).rglob("*.py") if generated or not p.name.endswith("_pb2.py"))


def name_of(path: Path, root: Path = ROOT) -> str:
    """The dotted name that a file or folder is installed under."""
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    return name if name.split(".")[0] == "convert" else f"convert.{name}"


class Content(NamedTuple):
    """What the walls ask of every file: to parse all of them takes seconds.

    absolute: modules that it imports from by their whole names, with their lines; seen, unseen: absolute names of the
    modules that it imports, and of what it imports from them, each with whether that happens at module level, at run
    time and for type checkers only.
    """

    docstring: str | None
    absolute: list[tuple[int, str]]
    seen: list[tuple[str, bool]]
    unseen: list[tuple[str, bool]]


def content_of(path: Path, root: Path = ROOT) -> Content:
    """What the walls ask of a file, which is parsed once."""
    return _content(path, root)


@cache
def _content(path: Path, root: Path) -> Content:
    tree = ast.parse(path.read_text())
    here = name_of(path, root).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    found = Content(ast.get_docstring(tree), [], [], [])
    for node, at_top, typing in _statements(tree.body):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (base, node.module) if part)
            names = [base, *(f"{base}.{a.name}" for a in node.names)]
            if not node.level:
                found.absolute.append((node.lineno, node.module or ""))
        (found.unseen if typing else found.seen).extend((name, at_top) for name in names)
    return found


def _statements(
    body: Iterable[ast.AST], at_top: bool = True, typing: bool = False
) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Statements, with whether they are at module level, and whether type checkers alone see them. No expression is
    looked into, which holds no statements."""
    for node in body:
        yield node, at_top, typing
        only_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, part, ()), False, typing or only_types)


def imports(path: Path, root: Path = ROOT, *, typing: bool = False) -> list[tuple[str, bool]]:
    """Absolute names of the modules that a file imports, and of what it imports from them, each with whether that
    happens at module level. What only type checkers see is left out, if not `typing`."""
    content = content_of(path, root)
    return content.seen + content.unseen if typing else content.seen


@cache
def arrows(root: Path = ROOT, *, typing: bool = False) -> dict[str, set[str]]:
    """For each module of ours the modules that it imports, wherever in it. A package that is only passed through on the
    way to a submodule is not imported by that. typing: with what only type checkers see."""
    names = {name_of(file, root): file for file in sources(root, generated=True)}
    found = {}
    for name, file in names.items():
        wanted = [n for n, _ in imports(file, root, typing=typing)]
        inner = {n.rpartition(".")[0] for n in wanted if n in names}
        reached = {n for n in wanted if n in names and (n not in inner or _takes_from(wanted, n, names))}
        found[name] = reached - {name}
    return found


def _takes_from(wanted: list[str], package: str, names: Mapping[str, Path]) -> bool:
    """Whether something is imported from a package that is not a submodule of it."""
    return any(n.rpartition(".")[0] == package and n not in names for n in wanted)


def circles(graph: Arrows) -> list[list[str]]:
    """Groups of nodes that reach one another: the strongly connected components of two and more."""
    return sorted(group for group in components(graph) if len(group) > 1)


def components(graph: Arrows) -> list[list[str]]:
    """Strongly connected components, by Tarjan's algorithm: each stands behind all that it points to."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def entries(graph: Arrows, room: str) -> dict[str, set[str]]:
    """The arrows between the entries of a room, a dotted name: of a folder those of all modules in it."""
    beside = {"frontends", "backends"} if room == "convert" else set()  # they lie beside convert/, and not in it

    def entry(module: str) -> str | None:
        if module == room:
            return "__init__"
        first = module.removeprefix(f"{room}.").split(".")[0]
        return first if module.startswith(f"{room}.") and first not in beside else None

    found: dict[str, set[str]] = {e: set() for e in map(entry, graph) if e is not None}
    for module, others in graph.items():
        own = entry(module)
        if own is not None:
            found[own] |= {e for e in map(entry, others) if e is not None} - {own}
    return found


def floors(graph: Arrows) -> int:
    """How many nodes the longest chain has in which each imports the next; a circle is one node."""
    height: dict[str, int] = {}
    for group in components(graph):
        below = {other for node in group for other in graph[node]} - set(group)
        height |= dict.fromkeys(group, 1 + max((height[other] for other in below), default=0))
    return max(height.values(), default=0)


def arrows_back(graph: Arrows) -> int:
    """The fewest arrows that have to go until there is no circle."""
    return sum(_fewest_back(graph, group) for group in circles(graph))


def _fewest_back(graph: Arrows, group: list[str]) -> int:
    """The fewest arrows against an order of the nodes of one component: exact up to 16 nodes, else by a heuristic."""
    points = [sum(1 << i for i, other in enumerate(group) if other in graph[node]) for node in group]
    if len(group) > 16:
        return _few_back(points)
    best = {0: 0}  # by the set of nodes that stand at the bottom
    for bottom in range(1, 1 << len(group)):
        best[bottom] = min(
            best[bottom & ~(1 << i)] + (points[i] & ~bottom).bit_count() for i in _bits(bottom)
        )  # i stands on the rest of the bottom, and points up to what is not in it
    return best[(1 << len(group)) - 1]


def _few_back(points: list[int]) -> int:
    """The same for many nodes, not always the fewest, after Eades, Lin and Smyth, "A fast and effective heuristic for
    the feedback arc set problem", 1993: what points to nothing that is left goes to the bottom, where there is no such
    node the one goes to the top that has the most arrows down beyond those into it, which are the arrows back."""
    left = (1 << len(points)) - 1
    back = 0
    while left:
        node = next((i for i in _bits(left) if not points[i] & left), None)
        if node is None:
            into = {i: sum(points[j] >> i & 1 for j in _bits(left)) for i in _bits(left)}
            node = max(_bits(left), key=lambda i: (points[i] & left).bit_count() - into[i])
            back += into[node]
        left &= ~(1 << node)
    return back


def _bits(number: int) -> Iterable[int]:
    return (i for i in range(number.bit_length()) if number >> i & 1)
