"""Test the walls of the architecture: allowed imports, cheap imports, and packaged files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.core_tests import FRAMEWORKS
from tests.support.import_graph import ROOT, TOPS, arrows, circles, content_of, imports, name_of, sources

PACKAGES = sorted(
    p for kind in ("frontends", "backends") for p in (ROOT / kind).iterdir() if (p / "__init__.py").exists()
)
TOP = {"pyproject.toml", "README.md", "LICENSE", "ARCHITECTURE.md", *TOPS, "tests", "fixtures"}
"""The files and folders allowed at the top, beside dot files."""


def test_no_module_imports_itself_over_others() -> None:
    assert circles(arrows()) == []


def test_nothing_else_lies_at_the_top() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tops = {line.split("/")[0] for line in tracked.splitlines()}
    assert {name for name in tops if not name.startswith(".")} == TOP


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: f"{p.parent.name}.{p.name}")
def test_packages_import_the_core_and_themselves_only(package: Path) -> None:
    own = name_of(package)
    for file in package.rglob("*.py"):
        for name, _ in imports(file):
            assert name.split(".")[0] not in ("frontends", "backends"), f"{file}: {name}"
            if name.startswith(("convert.frontends", "convert.backends")):
                assert name == own or name.startswith(f"{own}."), f"{file}: {name} is in another package"
            assert not name.startswith(("convert.cli", "convert.api")), f"{file}: {name}"


def test_packages_import_themselves_relatively() -> None:
    for package in PACKAGES:
        for file in package.rglob("*.py"):
            for line, name in content_of(file).absolute:
                assert not name.startswith(name_of(package)), f"{file}:{line}"


def test_the_core_imports_no_room_and_no_framework() -> None:
    for file in (ROOT / "convert").rglob("*.py"):
        for name, _ in imports(file):
            assert not name.startswith(("convert.frontends", "convert.backends", "frontends", "backends")), (
                f"{file}: {name}"
            )
            assert name.split(".")[0] not in FRAMEWORKS, f"{file}: {name}"


def test_shared_meaning_and_its_judge_know_nothing_of_each_other() -> None:
    """The reference executor checks convert/semantics and convert/legalize, so it needs its own arithmetic."""
    for file in (ROOT / "convert/semantics").glob("*.py"):
        for name, _ in imports(file):
            ours = name.split(".")[0] == "convert"
            assert not ours or name.startswith(
                ("convert.errors", "convert.graph", "convert.graph.long_double", "convert.semantics")
            ), f"{file}: {name}"
            assert ours or name.split(".")[0] in {"numpy", *sys.stdlib_module_names}, f"{file}: {name}"
    for file in (ROOT / "convert/reference").rglob("*.py"):
        for name, _ in imports(file):
            assert not name.startswith(("convert.semantics", "convert.legalize")), f"{file}: {name}"


def test_only_the_command_line_prints_or_exits() -> None:
    """The exceptions are child processes, which answer on stdout, and the batch, which starts command lines."""
    children = {"convert/processes/child.py", "convert/batch/child.py", "convert/processes/fork_server.py"}
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
        package = ".".join(module.split(".")[:3])
        # onnxruntime does not count as a framework: the core verifies with it.
        assert package in readers | writers or module == "convert.runtimes.onnx", f"{name}: {module}"


def test_every_package_is_packaged() -> None:
    """setuptools finds no packages in folders that are mapped to other names, so compare its list with the tree."""
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


def test_one_place_says_how_python_is_started() -> None:
    """The current directory is not on the path of child processes, because its modules may be anybody's."""
    found = [name_of(file) for file in sources() if "sys.executable" in file.read_text()]
    assert found == ["convert.processes.interpreter"]


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
    """Return top-level names in sys.modules after `code` ran in a new interpreter."""
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
                text = content_of(file).docstring
                assert text, f"{file} has no docstring"
                assert text != "Placeholder.", file


def test_names_say_what_they_are() -> None:
    """No variable's name is only a participle, such as `told`, `held` or `said`, which says nothing."""
    bare = {"told", "held", "said", "meant"}
    for file in sources():
        text = file.read_text()
        if not re.search(rf"\b_*({'|'.join(bare)})_*\b", text):
            continue
        for node in ast.walk(ast.parse(text)):
            bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.id if bound else getattr(node, "arg", None) or getattr(node, "name", None)
            line = getattr(node, "lineno", 0)
            assert str(name).strip("_") not in bare, f"{file.relative_to(ROOT)}:{line}: {name}"
