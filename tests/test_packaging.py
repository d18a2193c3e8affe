"""Test the contents of a wheel, without the source tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import convert

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build a wheel from a copy of the tree, because a build leaves folders there."""
    copy, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    for package in ("convert", "frontends", "backends"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                target = copy / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = made.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.long
def test_a_wheel_holds_every_file_of_the_rooms(wheel: zipfile.ZipFile) -> None:
    packages = {"convert": "convert", "frontends": "convert/frontends", "backends": "convert/backends"}
    files = {
        str(Path(place) / path.relative_to(ROOT / package))
        for package, place in packages.items()
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in (".py", ".tsv", ".proto", ".typed") and "__pycache__" not in path.parts
    } | {"convert/README.md", "convert/CHANGELOG.md", "convert/tour.md"}  # `convert --help` names the first
    assert files <= set(wheel.namelist())


@pytest.mark.long
def test_a_wheel_runs_without_the_source_tree(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    model = ROOT / "fixtures" / "mnist_cnn.onnx"
    code = f"import convert; print(convert.__file__); convert.convert({str(model)!r}, 'caffe2', 'nets', verify=False)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys, site; sys.path[:0] = [{str(tmp_path)!r}]; site.main(); {code}"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path)), done.stderr
    assert {path.name for path in (tmp_path / "nets").iterdir()} >= {"init_net.pb", "predict_net.pb"}, done.stderr


@pytest.mark.long
def test_a_wheel_has_the_version_of_the_code(wheel: zipfile.ZipFile) -> None:
    assert f"convert_models-{convert.__version__}.dist-info/METADATA" in wheel.namelist()


def test_a_tag_and_the_changelog_name_the_version_of_the_code() -> None:
    """The newest release in the changelog has a date and equals `__version__`, and so does a tag `v…` of the commit."""
    text = (ROOT / "convert" / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(convert.__version__)}\] - \d{{4}}-\d\d-\d\d", headings[1])
    git = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    tags = subprocess.run(git, capture_output=True, text=True, check=False).stdout.split()
    assert {tag for tag in tags if re.match(r"v\d", tag)} <= {f"v{convert.__version__}"}


def requirements(names: list[str]) -> set[str]:
    return {re.split(r"[<>=;\[ ]", name)[0].lower().replace("_", "-") for name in names}


def imported(package: str) -> set[str]:
    """Return the distributions of packages that are imported anywhere in a folder."""
    found = set()
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{a.name}" for a in node.names]
            found |= {name.split(".")[0] if not name.startswith("google.") else name for name in names}
    own = {"convert", *sys.stdlib_module_names}
    return {DISTRIBUTIONS.get(".".join(n.split(".")[:2]), n).lower().replace("_", "-") for n in found if n not in own}


DISTRIBUTIONS = {"PIL": "pillow", "google.protobuf": "protobuf", "google_crc32c": "google-crc32c"}


@pytest.mark.parametrize(
    "package", ["convert", "frontends/onnx", "backends/onnx", "frontends/caffe2", "backends/caffe2"]
)
def test_what_runs_without_extras_imports_dependencies_only(package: str) -> None:
    extras = requirements(
        [name for extra in ("images", "ray", "hub") for name in PROJECT["optional-dependencies"][extra]]
    )
    frameworks = {"caffe2", "pytest"}  # the real Caffe2 is run in its own Python
    assert imported(package) - frameworks <= requirements(PROJECT["dependencies"]) | extras
