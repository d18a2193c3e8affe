"""A third-party backend, `tests/support/example_backend`, works completely without a change of the core."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_support import array, info, model

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "tests" / "support" / "example_backend"

# A warm process was started without the example.
pytestmark = [pytest.mark.usefixtures("new_interpreters"), pytest.mark.not_core]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the example is installed as if by pip; `PYTHONPATH` names it in child processes."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "toy").symlink_to(EXAMPLE / "toy")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    told = folder / "convert_toy-0.1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (told / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """leaky_relu(x @ w + b)."""
    chance = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("LeakyRelu", ["s"], ["y"], alpha=0.1),
    ]
    weights = [array("w", chance.normal(size=(4, 3))), array("b", chance.normal(size=3))]
    path = tmp_path_factory.mktemp("models") / "m.onnx"
    onnx.save(model(nodes, [info("x", ["n", 4])], [info("y", ["n", 3])], weights), path)
    return path


def run(site: Path, folder: Path, *args: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `python …` in `folder`, with the example installed."""
    environment = {**os.environ, "PYTHONPATH": str(site), **more}
    words = [sys.executable, *map(str, args)]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def command(site: Path, folder: Path, *args: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return run(site, folder, "-m", "convert", *args, **more)


def test_it_converts_and_is_verified(site: Path, network: Path, tmp_path: Path) -> None:
    done = command(site, tmp_path, network, "--to", "toy", "--indent", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["format"], told["verdict"]["status"]) == ("toy", "PASS")
    assert (tmp_path / "m.toy").read_text().startswith('{\n  "toy": 1')
    # The artefact is recognized by its content, not by its name.
    (tmp_path / "m.toy").rename(tmp_path / "other.txt")
    told = json.loads(command(site, tmp_path, "verify", network, "other.txt", "--json").stdout)
    assert (told["format"], told["verdict"]["status"]) == ("toy", "PASS")


@pytest.mark.slow
def test_its_option_is_like_any_other(site: Path, network: Path, tmp_path: Path) -> None:
    assert "--indent INTEGER RANGE" in command(site, tmp_path, "--help").stdout
    wrong = command(site, tmp_path, network, "--to", "toy", "--indent", "9")
    assert wrong.returncode == 2
    assert "9 is not in the range 0<=x<=8" in wrong.stderr
    code = (
        "import convert\n"
        f"report = convert.convert({str(network)!r}, 'toy', 'm.toy', indent=4)\n"
        "print(report.verdict.status)\n"
        "for wrong in ({'indent': 9}, {'indent': '4'}, {'indent': True}, {'dent': 4}):\n"
        "    try:\n"
        f"        convert.convert({str(network)!r}, 'toy', 'n.toy', **wrong)\n"
        "    except convert.UsageError as error:\n"
        "        print(error.message)\n"
    )
    done = run(site, tmp_path, "-c", code)
    assert done.stdout.splitlines() == [
        "PASS",
        "indent = 9 is not a number from 0 to 8",
        "indent = '4' is not a number from 0 to 8",
        "indent = True is not a number from 0 to 8",
        "there is no option 'dent'",
    ], done.stderr
    assert (tmp_path / "m.toy").read_text().startswith('{\n    "toy": 1')


@pytest.mark.slow
def test_it_is_listed_and_completed(site: Path, tmp_path: Path) -> None:
    told = json.loads(command(site, tmp_path, "formats", "--json").stdout)
    assert told["write"]["toy"]["suffix"] == ".toy"
    told = json.loads(command(site, tmp_path, "ops", "--to", "toy", "--json").stdout)
    assert told["gaps"] == {"Conv": "numpy has no convolution"}
    assert list(told["limits"]) == ["LeakyRelu"]
    for words, answer in (("convert m.onnx --to to", "toy"), ("convert m.onnx --ind", "--indent")):
        count = str(len(words.split()) - 1)
        main = "from convert.cli import cli; cli(prog_name='convert')"
        asked = {"_CONVERT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}
        done = run(site, tmp_path, "-c", main, **asked)
        assert f"plain,{answer}\n" in done.stdout, done.stderr


@pytest.mark.slow
def test_a_batch_takes_it(site: Path, network: Path, tmp_path: Path) -> None:
    (tmp_path / "zoo.toml").write_text(f'[[models]]\nsource = "{network}"\nto = "toy"\nindent = 3\n')
    done = command(site, tmp_path, "batch", "zoo.toml", "-o", "out", "--jobs", "1", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[0])["outcome"] == "verified"
    assert (tmp_path / "out/m.toy").read_text().startswith('{\n   "toy": 1')
    (tmp_path / "zoo.toml").write_text(f'[[models]]\nsource = "{network}"\nto = "toy"\nindent = "wide"\n')
    assert "wrong type" in command(site, tmp_path, "batch", "zoo.toml", "-o", "out").stderr
    # Files in a folder are recognized as models by their names. No frontend reads this kind, and the task reports that.
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo/m.toy").write_bytes((tmp_path / "out/m.toy").read_bytes())
    done = command(site, tmp_path, "batch", "zoo", "--to", "onnx", "-o", "again", "--json")
    assert "which no installed frontend reads" in json.loads(done.stdout.splitlines()[0])["reason"]


@pytest.mark.slow
def test_what_it_lacks_is_listed_before_anything_is_written(site: Path, tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    onnx.save(
        model([node], [info("x", [1, 1, 3, 3])], [info("y", [1, 1, 3, 3])], [array("w", np.ones((1, 1, 1, 1)))]),
        tmp_path / "c.onnx",
    )
    for more in ((), ("--dry-run",)):
        done = command(site, tmp_path, "c.onnx", "--to", "toy", *more)
        assert done.returncode == 4
        assert "numpy has no convolution" in done.stderr
    assert not (tmp_path / "c.toy").exists()


def test_the_recipe_shows_what_is_run_here() -> None:
    """Code blocks in the pages of backends that name a file of the example are that file."""
    for page in (ROOT / "backends").rglob("*.md"):
        for name, code in re.findall(r"^```\w+\n# (\S+)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            if (EXAMPLE / name).exists():
                assert code == (EXAMPLE / name).read_text(), name


@pytest.mark.slow
def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path, network: Path) -> None:
    told = tmp_path / "broken-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[convert.backends]\nbroken = broken_backend\n")
    for words in (("--help",), (network, "--to", "onnx"), ("formats",)):
        done = command(tmp_path, tmp_path, *words)
        assert done.returncode == 1
        assert "broken_backend, an entry point 'convert.backends', cannot be imported" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_two_that_want_one_name_are_told(tmp_path: Path) -> None:
    (tmp_path / "second.py").write_text(
        "from convert.plugin import Option\nFORMATS = {}\nOPTIONS = (Option('opset', 1, 'Mine.'),)\n"
    )
    (tmp_path / "third.py").write_text(
        "from convert.plugin import Option\nFORMATS = {}\nOPTIONS = (Option('force', False, 'Mine.'),)\n"
    )
    told = tmp_path / "second-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: second\nVersion: 1\n")
    for module, complaint in (
        ("second", "different options named 'opset'"),
        ("third", "--force, which is an option already"),
    ):
        (told / "entry_points.txt").write_text(f"[convert.backends]\nmine = {module}\n")
        done = command(tmp_path, tmp_path, "--help")
        assert done.returncode == 1
        assert complaint in done.stderr
