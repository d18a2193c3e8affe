"""Odd surroundings of a command: folders, names, streams, signals and limits with which it is started."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import onnx
import pytest
from onnx import TensorProto, helper

from tests.support.marks import slow_but

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as Linux has them"),
    pytest.mark.not_core,  # every test starts programs, which takes seconds
]


class Row(NamedTuple):
    """A shell line in which $C is the command, its exit code, and the conditions under which it starts.

    variables: environment variables; None removes one; {here} is the folder. told: text that stderr must contain.
    """

    line: str
    code: int = 0
    variables: Mapping[str, str | None] = MappingProxyType({})
    prepare: Callable[[], object] = os.getpid
    told: str = ""


def _limit(kind: int, value: int) -> Callable[[], object]:
    return lambda: resource.setrlimit(kind, (value, value))


def _ignore_all() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
        signal.signal(number, signal.SIG_IGN)


GONE = "D=$PWD; mkdir x; cd x; rmdir ../x; "
INSPECT = "$C inspect m.onnx"
LONG = "o" * 250
DEEP = "o/" * 2500

ROWS = {
    **{
        f"the folder has gone, {words}": Row(f"{GONE}$C {words}", 2, told="the folder that you are in has been removed")
        for words in (
            "inspect ../m.onnx",
            'inspect "$D/m.onnx"',
            "m.onnx --to onnx",
            '"$D/m.onnx" --to onnx -o "$D/n.onnx"',
            'verify "$D/m.onnx" "$D/m.onnx"',
            'batch "$D/m.onnx" --to onnx -o out',
            "ops --from pytorch",
        )
    },
    **{f"the folder has gone, {words}": Row(f"{GONE}$C {words}") for words in ("formats", "--help", "help verify")},
    "an output around everything": Row("$C m.onnx --to onnx -o / --force", 2, told="holds the source"),
    "an output of a long name": Row(f"$C m.onnx --to onnx --no-verify -o {'o' * 300}.onnx", 2, told="too long"),
    "names that are no text": Row(
        "cp m.onnx $(printf '\\351.onnx'); $C $(printf '\\351.onnx') --to onnx --verify -o $(printf '\\374.onnx')"
    ),
    "no home": Row(INSPECT, variables={"HOME": None}),
    "a home that is nowhere": Row(INSPECT, variables={"HOME": "/nowhere/at all"}),
    "a home that is a file": Row(INSPECT, variables={"HOME": "{here}/m.onnx"}),
    "no variables": Row('env -i "$P" -P -c "$M" inspect m.onnx'),
    "temporary files nowhere": Row(INSPECT, variables={"TMPDIR": "/nowhere"}),
    "temporary files in a file": Row(INSPECT, variables={"TMPDIR": "{here}/m.onnx"}),
    "temporary files behind a long name": Row(f'mkdir {LONG}; TMPDIR="$PWD/{LONG}" {INSPECT}'),
    "temporary files behind an odd name": Row(f"mkdir $'t\\n\\xff'; TMPDIR=\"$PWD/\"$'t\\n\\xff' {INSPECT}"),
    "a locale that is none": Row(
        "cp m.onnx ä.onnx; $C inspect ä.onnx",
        variables={"LC_ALL": "none", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"},
    ),
    "no rights for new files": Row(INSPECT, prepare=lambda: os.umask(0o777)),
    "all signals blocked": Row(
        INSPECT, prepare=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ),
    "all signals ignored": Row(INSPECT, prepare=_ignore_all),
    "no space for files": Row(INSPECT, 6, prepare=_limit(resource.RLIMIT_FSIZE, 0), told="the disk takes no more"),
    "no files to open": Row(INSPECT, 6, prepare=_limit(resource.RLIMIT_NOFILE, 6), told="open no more files"),
    "a width of one": Row(INSPECT, variables={"COLUMNS": "1", "LINES": "-1", "TERM": "odd"}),
    "a name of two lines": Row("cp m.onnx $'a\\nb.onnx'; $C inspect $'a\\nb.onnx'"),
    "a name that is no text": Row("cp m.onnx $'a\\xff.onnx'; $C inspect $'a\\xff.onnx'"),
    "a name that is no text, in JSON": Row(
        "cp m.onnx $'a\\xff.onnx'; $C inspect $'a\\xff.onnx' --json"
        ' | "$P" -c "import json, sys; json.load(sys.stdin)"'
    ),
    "a name that is too long": Row(f"$C inspect {LONG}o.onnx", 5),
    "a path that is too long": Row(f"$C inspect {DEEP}m.onnx", 5),
    "a link to itself": Row("ln -s l.onnx l.onnx; $C inspect l.onnx", 5),
    "no name": Row("$C inspect ''", 2),
    "a pipe that nobody writes to": Row("mkfifo p.onnx; timeout 60 $C inspect p.onnx", 5),
    "a device without an end": Row("timeout 60 $C inspect /dev/zero", 5),
    "no stdin": Row(f"{INSPECT} <&-"),
    "no stdin, no stderr": Row(f"{INSPECT} <&- 2>&-"),
    "no stdin, no stdout": Row(f"{INSPECT} <&- >&-"),
    "stdin to write": Row(f"{INSPECT} 0>&1"),
    "nobody reads what is long": Row("$C ops --to onnx | head -c 1 >f; rm f; exit ${PIPESTATUS[0]}"),
    "stopped and continued": Row(f"{INSPECT} & sleep 0.5; kill -STOP $!; sleep 2; kill -CONT $!; wait $!"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model of one addition."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", ends[:1], ends[1:])
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@pytest.mark.parametrize("name", slow_but(ROWS, "no variables", "no space for files", "a name of two lines"))
def test_odd_surroundings(name: str, model: Path, tmp_path: Path) -> None:
    run(ROWS[name], model, tmp_path)


def run(row: Row, model: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "m.onnx").write_bytes(model.read_bytes())
    variables = {k: v and v.format(here=tmp_path) for k, v in row.variables.items()}
    start = "from convert.cli import main; main()"
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "P": sys.executable, "M": start, **variables}
    done = subprocess.run(
        ["bash", "-c", 'C() { "$P" -P -c "$M" "$@"; }\n' + row.line.replace("$C ", "C ").replace("timeout 60 C", "C")],
        cwd=tmp_path,
        env={k: v for k, v in environment.items() if v is not None},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=row.prepare,
        timeout=100,
        check=False,
    )
    told = done.stderr.decode(errors="replace")
    assert done.returncode == row.code, told
    assert "Traceback" not in told
    assert "Exception" not in told
    assert told.count("error:") == (1 if row.code and row.code != 2 else told.count("error:"))
    assert row.told in told
    left = [path for path in tmp_path.rglob("*") if path.name.startswith((".convert-", "convert-tmp-"))]
    assert left == []


HOMES = {
    "empty": "mkdir home",
    "with settings that Keras refuses": "mkdir -p home/.keras; echo '{\"epsilon\": 1}' > home/.keras/keras.json",
}
"""Home folders to test: functions that create one, by description."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HOMES)
def test_neither_the_home_folder_nor_programs_of_the_folder_have_a_part(name: str, model: Path, tmp_path: Path) -> None:
    """Nothing is read from or left in the home folder, and no program is started from the user's current folder."""
    pytest.importorskip("keras", reason="it is Keras that looks there")
    programs = "for p in uname ldconfig gcc cc ld objdump; do printf '#!/bin/sh\ntouch ran' > $p; chmod +x $p; done"
    odd = {"HOME": "{here}/home", "PATH": f".:{os.environ['PATH']}:", "KERAS_BACKEND": "jax"}
    keras = "$C m.onnx --to keras -o k.keras --no-verify"
    line = f"{programs}; {HOMES[name]}; find home > before; {keras} && find home | cmp - before && test ! -e ran"
    run(Row(line, variables=odd), model, tmp_path)
