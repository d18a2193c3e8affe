"""Finds the user's own Python modules that a factory or a rules file imports, without running any of them."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_OWN = "convert"
"""This package; its version is in each key."""

_MOST = 10_000
"""Largest number of files to follow."""


def local_modules(names: Iterable[str], files: Iterable[Path]) -> list[Path]:
    """Return the files of the modules `names`, and of everything that they and the Python files `files` import.

    Import statements count, also those inside functions, and `import_module` with a literal. Modules of Python and of
    installed packages are left out. Modules are searched in the folder of the command, in the folders of the files, and
    on `sys.path`. A file found unnecessarily only makes the key change more often than needed.
    """
    given = list(files)
    folders = dict.fromkeys([os.getcwd(), *(str(file.parent.absolute()) for file in given), *sys.path])
    search = [folder or os.getcwd() for folder in folders if not _is_installed(folder)]
    found: dict[Path, None] = {}
    pending = [("", file) for file in reversed(given)]
    wanted = list(names)
    while (pending or wanted) and len(found) < _MOST:
        while wanted:
            for module, file in _files_of(wanted.pop(), search):
                if file not in found:
                    found[file] = None
                    pending.append((module, file))
        if pending:
            wanted += _imported(*pending.pop())
    return list(found)


def _is_installed(folder: str) -> bool:
    path = os.path.realpath(folder)
    standard = any(path == place or path.startswith(place + os.sep) for place in _standard_library())
    return standard or path.endswith(".zip") or not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


@cache
def _standard_library() -> tuple[str, ...]:
    return tuple({os.path.realpath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")})


def _files_of(name: str, search: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield each module on the way to `name` that has a file: `pkg`, `pkg.mod`; stop where there is no module."""
    places, parts = search, name.split(".")
    if parts[0] == _OWN or not all(map(str.isidentifier, parts)):
        return
    for number, part in enumerate(parts, 1):
        module = ".".join(parts[:number])
        file, places = _module_at(places, part)
        if file is not None:
            yield (f"{module}.__init__" if places else module), file
        if not places:
            return


def _module_at(places: list[str], name: str) -> tuple[Path | None, list[str]]:
    """Return the file of a module, and the folders of its submodules.

    A folder without `__init__.py` is a package, too.
    """
    bare = []
    for place in places:
        folder = Path(place, name)
        if (start := folder / "__init__.py").is_file():
            return start, [str(folder)]
        if (file := Path(place, f"{name}.py")).is_file():
            return file, []
        if (compiled := next((f for f in sorted(Path(place).glob(f"{name}.*")) if _is_extension(f)), None)) is not None:
            return compiled, []
        if folder.is_dir():
            bare.append(str(folder))
    return None, bare


def _is_extension(file: Path) -> bool:
    return file.name.endswith(tuple(EXTENSION_SUFFIXES)) and file.is_file()


def _imported(module: str, file: Path) -> list[str]:
    """Return the names that a file imports; `module` is its own name, with `__init__` for a package."""
    try:
        facts = file.stat()
        return list(_imports(module, file, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size))
    except OSError:
        return []


@lru_cache(maxsize=4096)
def _imports(module: str, file: Path, *_: int) -> tuple[str, ...]:
    if file.suffix != ".py":
        return ()
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # running it reports the error
    return tuple(dict.fromkeys(name for node in ast.walk(tree) for name in _names(module, node)))


def _names(module: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parts = module.split(".")
        above = parts[: -node.level] if node.level else []
        if node.level and not above:
            return
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            yield node.args[0].value
