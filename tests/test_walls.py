"""The walls of the architecture: who may import whom, what costs nothing to import, and what is packaged."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("convert", "frontends", "backends")
FRAMEWORKS = {
    "torch", "tensorflow", "keras", "caffe2", "safetensors", "h5py", "transformers", "ai_edge_litert",
}  # fmt: skip
ROOMS = sorted(p for kind in ("frontends", "backends") for p in (ROOT / kind).iterdir() if (p / "__init__.py").exists())
MOST_LINES = 400


def sources() -> Iterator[Path]:
    for top in TOPS:
        yield from sorted(p for p in (ROOT / top).rglob("*.py") if not p.name.endswith("_pb2.py"))


def name_of(path: Path) -> str:
    """The dotted name that a file or folder is installed under."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return name if name.split(".")[0] == "convert" else f"convert.{name}"


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """Absolute names of the modules that a file imports, and of what it imports from them, each with whether that
    happens at module level. What only type checkers see is left out."""
    tree = ast.parse(path.read_text())
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    here = name_of(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (base, node.module) if part)
            names = [base, *(f"{base}.{a.name}" for a in node.names)]
        found += [(name, node in tree.body) for name in names if id(node) not in unseen]
    return found


@cache
def arrows() -> dict[str, set[str]]:
    """For each module of ours the modules that it imports, wherever in it. A package that is only passed through on the
    way to a submodule is not imported by that."""
    names = {name_of(file): file for file in sources()}
    found = {}
    for name, file in names.items():
        wanted = [n for n, _ in imports(file)]
        inner = {n.rpartition(".")[0] for n in wanted if n in names}
        reached = {n for n in wanted if n in names and (n not in inner or handed_on(wanted, n, names))}
        found[name] = reached - {name}
    return found


def handed_on(wanted: list[str], package: str, names: dict[str, Path]) -> bool:
    """Whether something is imported from a package that is not a submodule of it."""
    return any(n.rpartition(".")[0] == package and n not in names for n in wanted)


def circles() -> list[list[str]]:
    """Groups of modules that import one another, by Tarjan's strongly connected components."""
    graph = arrows()
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in graph:
        if module not in index:
            visit(module)
    return found


def test_no_module_imports_itself_over_others() -> None:
    assert circles() == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda p: f"{p.parent.name}.{p.name}")
def test_rooms_import_the_core_and_themselves_only(room: Path) -> None:
    own = name_of(room)
    for file in room.rglob("*.py"):
        for name, _ in imports(file):
            assert name.split(".")[0] not in ("frontends", "backends"), f"{file}: {name}"
            if name.startswith(("convert.frontends", "convert.backends")):
                assert name == own or name.startswith(f"{own}."), f"{file}: {name} is in another room"
            assert not name.startswith(("convert.cli", "convert.api")), f"{file}: {name}"


def test_rooms_import_themselves_relatively() -> None:
    for room in ROOMS:
        for file in room.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and not node.level:
                    assert not (node.module or "").startswith(name_of(room)), f"{file}:{node.lineno}"


def test_the_core_imports_no_room_and_no_framework() -> None:
    for file in (ROOT / "convert").rglob("*.py"):
        for name, _ in imports(file):
            assert not name.startswith(("convert.frontends", "convert.backends", "frontends", "backends")), (
                f"{file}: {name}"
            )
            assert name.split(".")[0] not in FRAMEWORKS, f"{file}: {name}"


def test_shared_meaning_and_its_judge_know_nothing_of_each_other() -> None:
    """What backends compute (convert/semantics) is judged by the reference executor, which has its own arithmetic."""
    for file in (ROOT / "convert/semantics").glob("*.py"):
        for name, _ in imports(file):
            ours = name.split(".")[0] == "convert"
            assert not ours or name.startswith(("convert.errors", "convert.graph", "convert.semantics")), (
                f"{file}: {name}"
            )
            assert ours or name.split(".")[0] in {"numpy", *sys.stdlib_module_names}, f"{file}: {name}"
    for file in (ROOT / "convert/reference").rglob("*.py"):
        for name, _ in imports(file):
            assert not name.startswith("convert.semantics"), f"{file}: {name}"


def test_only_the_command_line_prints_or_exits() -> None:
    """Children talk over their stdout, and a batch starts command lines: those are named here."""
    children = {"convert/runners/child.py", "convert/batch/child.py", "convert/batch/fork_server.py"}
    for file in (ROOT / "convert").rglob("*.py"):
        for name, _ in imports(file):
            inside = file.relative_to(ROOT / "convert").parts[0] in ("cli", "__main__.py")
            if name.startswith("convert.cli") and not inside:
                assert file.relative_to(ROOT).as_posix() in children, f"{file}: {name}"


def test_a_runner_lives_with_the_reader_of_its_framework() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    readers = set(points["convert.frontends"].values())
    writers = set(points["convert.backends"].values())
    for name, module in points["convert.runners"].items():
        room = ".".join(module.split(".")[:3])
        # onnxruntime is no framework that models are written in: the core judges with it.
        assert room in readers | writers or module == "convert.runners.onnx", f"{name}: {module}"


def test_every_package_is_packaged() -> None:
    """setuptools finds no packages where folders are mapped to other names: the list is held against the tree."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {p.parent for p in sources()} | {ROOT / top for top in TOPS}
    for folder in folders:
        assert (folder / "__init__.py").exists(), f"{folder.relative_to(ROOT)} has modules and no __init__.py"
    assert tool["packages"] == sorted(name_of(folder / "__init__.py") for folder in folders)
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *TOPS], cwd=ROOT, capture_output=True,
                             text=True, check=True).stdout.split()  # fmt: skip
    for file in map(Path, tracked):
        if file.suffix not in (".py", ".md") and (ROOT / file).exists():
            patterns = tool["package-data"].get(name_of(ROOT / file.parent / "__init__.py"), [])
            assert any(file.match(p) for p in patterns), f"{file} is not packaged: add it to package-data"


def test_no_file_is_too_long() -> None:
    for file in [*sources(), *sorted((ROOT / "tests").rglob("*.py"))]:
        lines = len(file.read_text().splitlines())
        assert lines <= MOST_LINES, f"{file.relative_to(ROOT)} has {lines} lines: split it by sense"


def test_nothing_reads_the_shared_folder_or_names_this_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    here = str(ROOT)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".py", ".toml", ".md", ".sh", "") and path.is_file() and path.name != "test_walls.py":
            text = path.read_text(errors="replace")
            assert here not in text, name
            assert "shared/" not in text or "design" not in text, name


def loaded_after(code: str) -> set[str]:
    """Top-level names in sys.modules after `code` ran in a new interpreter."""
    program = (
        "import sys\n"
        f"sys.argv = ['convert']\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n'.join({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "command",
    [
        "from convert.cli import cli; cli(['--help'])",
        "from convert.cli import cli; cli(['verify', '--help'])",
        "from convert.cli import cli; cli(['formats'])",
        "import convert",
    ],
)
def test_help_imports_no_framework(command: str) -> None:
    forbidden = FRAMEWORKS | {"onnx", "onnx_ir", "onnxruntime", "numpy", "rich", "scipy"}
    assert not forbidden & loaded_after(command)


def test_shell_completion_imports_no_framework() -> None:
    code = (
        "import os; os.environ.update(_CONVERT_COMPLETE='bash_complete', COMP_WORDS='convert m.pt --to ',"
        " COMP_CWORD='3');"
        " from convert.cli import cli; cli(prog_name='convert')"
    )
    assert not (FRAMEWORKS | {"onnx", "numpy", "rich"}) & loaded_after(code)


def test_every_module_says_what_it_is_for() -> None:
    for kind in ("convert", "frontends", "backends"):
        for file in (ROOT / kind).rglob("*.py"):
            if not file.name.endswith("_pb2.py"):
                text = ast.get_docstring(ast.parse(file.read_text()))
                assert text, f"{file} has no docstring"
                assert text != "Placeholder.", file
