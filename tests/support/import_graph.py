"""The import graph of the project: modules, arrows between them, circles, and the same for the entries of a package.

An entry of a package is a file or a folder of modules directly in it, its own `__init__` included.
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
    """Yield all packaged modules. generated: also those that protoc has written."""
    for top in TOPS:
        yield from sorted(p for p in (root / top).rglob("*.py") if generated or not p.name.endswith("_pb2.py"))


def name_of(path: Path, root: Path = ROOT) -> str:
    """Return the dotted name under which a file or folder is installed."""
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    return name if name.split(".")[0] == "convert" else f"convert.{name}"


class Content(NamedTuple):
    """Facts about a file that the checks of imports need; parsing all files takes seconds.

    absolute: modules that it imports by absolute names, with their lines. seen: absolute names of modules and names
    that it imports at run time, each with whether that happens at module level. unseen: those for type checkers only.
    """

    docstring: str | None
    absolute: list[tuple[int, str]]
    seen: list[tuple[str, bool]]
    unseen: list[tuple[str, bool]]


def content_of(path: Path, root: Path = ROOT) -> Content:
    """Return the facts about a file, which is parsed once."""
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
    found.seen.extend((name, False) for name in _imported_by_name(tree))
    return found


def _imported_by_name(tree: ast.AST) -> Iterator[str]:
    """Yield the literal arguments of `import_module`: imports that exist at run time only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant))


def _statements(
    body: Iterable[ast.AST], at_top: bool = True, typing: bool = False
) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Yield statements, with whether they are at module level, and whether only type checkers see them."""
    for node in body:
        yield node, at_top, typing
        only_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, part, ()), False, typing or only_types)


def imports(path: Path, root: Path = ROOT, *, typing: bool = False) -> list[tuple[str, bool]]:
    """Return absolute names of modules and names that a file imports, each with whether it is at module level.

    Imports for type checkers only are left out, unless `typing`.
    """
    content = content_of(path, root)
    return content.seen + content.unseen if typing else content.seen


@cache
def arrows(root: Path = ROOT, *, typing: bool = False) -> dict[str, set[str]]:
    """Return the project's modules that each module imports, anywhere in it.

    Importing a submodule does not count as importing its package. typing: with imports for type checkers only.
    """
    names = {name_of(file, root): file for file in sources(root, generated=True)}
    found = {}
    for name, file in names.items():
        wanted = [n for n, _ in imports(file, root, typing=typing)]
        inner = {n.rpartition(".")[0] for n in wanted if n in names}
        reached = {n for n in wanted if n in names and (n not in inner or _takes_from(wanted, n, names))}
        found[name] = reached - {name}
    return found


def _takes_from(wanted: list[str], package: str, names: Mapping[str, Path]) -> bool:
    """Return whether a name other than a submodule is imported from a package."""
    return any(n.rpartition(".")[0] == package and n not in names for n in wanted)


def circles(graph: Arrows) -> list[list[str]]:
    """Return the strongly connected components of two or more nodes."""
    return sorted(group for group in components(graph) if len(group) > 1)


def components(graph: Arrows) -> list[list[str]]:
    """Return strongly connected components by Tarjan's algorithm, each after all components that it points to."""
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


def entries(graph: Arrows, package: str) -> dict[str, set[str]]:
    """Return the arrows between the entries of a package; a folder has the arrows of all modules in it."""
    beside = (
        {"frontends", "backends"} if package == "convert" else set()
    )  # these packages are beside convert/, not in it

    def entry(module: str) -> str | None:
        if module == package:
            return "__init__"
        first = module.removeprefix(f"{package}.").split(".")[0]
        return first if module.startswith(f"{package}.") and first not in beside else None

    found: dict[str, set[str]] = {e: set() for e in map(entry, graph) if e is not None}
    for module, others in graph.items():
        own = entry(module)
        if own is not None:
            found[own] |= {e for e in map(entry, others) if e is not None} - {own}
    return found


def floors(graph: Arrows) -> int:
    """Return the number of nodes in the longest chain of imports; a circle counts as one node."""
    height: dict[str, int] = {}
    for group in components(graph):
        below = {other for node in group for other in graph[node]} - set(group)
        height |= dict.fromkeys(group, 1 + max((height[other] for other in below), default=0))
    return max(height.values(), default=0)


def arrows_back(graph: Arrows) -> int:
    """Return the smallest number of arrows whose removal leaves no circle."""
    return sum(_fewest_back(graph, group) for group in circles(graph))


def _fewest_back(graph: Arrows, group: list[str]) -> int:
    """Return the smallest number of arrows against an order of one component's nodes; exact up to 16 nodes."""
    points = [sum(1 << i for i, other in enumerate(group) if other in graph[node]) for node in group]
    if len(group) > 16:
        return _few_back(points)
    best = {0: 0}  # by the set of nodes at the bottom
    for bottom in range(1, 1 << len(group)):
        best[bottom] = min(
            best[bottom & ~(1 << i)] + (points[i] & ~bottom).bit_count() for i in _bits(bottom)
        )  # i is on top of `bottom`; its arrows to nodes outside point up
    return best[(1 << len(group)) - 1]


def _few_back(points: list[int]) -> int:
    """Count the arrows back for many nodes; the count is not always minimal.

    The heuristic is that of Eades, Lin and Smyth, "A fast and effective heuristic for the feedback arc set problem",
    1993. A node without arrows to remaining nodes goes to the bottom. If there is none, the node with the largest
    number of outgoing minus incoming arrows goes to the top; its incoming arrows are the arrows back.
    """
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
