"""The walls of the architecture: who may import whom, and what costs nothing to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = {"torch", "tensorflow", "keras", "caffe2", "safetensors", "h5py", "transformers"}
ROOMS = sorted(p for kind in ("frontends", "backends") for p in (ROOT / kind).iterdir() if (p / "__init__.py").exists())


def imports(path: Path) -> list[tuple[str, bool]]:
    """Absolute module names that a file imports, each with whether that happens at module level."""
    tree = ast.parse(path.read_text())
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        found += [(name, node in tree.body) for name in names]
    return found


@pytest.mark.parametrize("room", ROOMS, ids=lambda p: f"{p.parent.name}.{p.name}")
def test_rooms_import_the_core_and_themselves_only(room: Path) -> None:
    depth = len(room.relative_to(ROOT).parts)
    for file in room.rglob("*.py"):
        inside = len(file.relative_to(ROOT).parts) - depth
        for name, _ in imports(file):
            if name.startswith("."):
                dots = len(name) - len(name.lstrip("."))
                assert dots <= inside, f"{file}: {name} leaves the room"
            root = name.split(".")[0]
            assert root not in ("frontends", "backends"), f"{file}: {name}"
            assert not name.startswith(("convert.frontends", "convert.backends")), f"{file}: {name}"
            assert not name.startswith(("convert.cli", "convert.cli.render", "convert.api")), f"{file}: {name}"


def test_the_core_imports_no_room_and_no_framework() -> None:
    for file in (ROOT / "convert").rglob("*.py"):
        for name, top in imports(file):
            assert not name.startswith(("convert.frontends", "convert.backends", "frontends", "backends")), (
                f"{file}: {name}"
            )
            if name.split(".")[0] in FRAMEWORKS:
                # Runners execute frameworks in a child process, and import them when they are asked to.
                assert file.parent.name == "runners", f"{file}: {name}"
                assert not top, f"{file}: {name}"


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
