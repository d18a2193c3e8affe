"""The supervisor of a worker process: limits, crashes and signals end in one line and the right exit code.

The work replaces `convert.api`, so that each test takes as long as Python takes to start.
"""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from convert.cli import signals
from tests.convert.processes.test_sandbox import heed_signals

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as Linux has them"),
    pytest.mark.not_core,  # every test starts programs, which takes seconds
]

PROGRAM = """
import os, signal, subprocess, sys, tempfile, time, types
from pathlib import Path

def work(source, *args, report, **rest):
    # Ten seconds of patience are a wait, and nothing else.
    sys.modules["convert.cli.output_options"]._PATIENCE = 1.0
    with report.stage("read"):
        {body}
    return report

api = types.ModuleType("convert.api")
api.inspect = api.convert = work
sys.modules["convert.api"] = api
sys.argv = ["convert", *{words!r}]
from convert.cli import main
main()
"""
READY = 'Path("ready").touch(); time.sleep(100)'
LINES = {
    "INT": "interrupted",
    "TERM": "terminated",
    "HUP": "ended: the terminal has gone",
    "XCPU": "ended: the limit of processor time is reached (ulimit -t)",
    **{name: f"ended by SIG{name}" for name in ("QUIT", "USR1", "USR2", "ALRM", "ABRT")},
}


def start(folder: Path, body: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    """Run `convert inspect m WORDS`, which does `body`, in an empty folder with a folder for temporary files in it."""
    (folder / "tmp").mkdir()
    program = PROGRAM.format(body=body, words=words or ("inspect", "m"))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed_signals, **more}
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "TERM": "xterm"}
    return subprocess.Popen([sys.executable, "-c", program], cwd=folder, env=environment, text=True, **pipes)


def run(folder: Path, body: str, *words: str) -> tuple[int, str, list[str]]:
    """Return the exit code, stdout and the lines of stderr; assert that nothing is left behind."""
    process = start(folder, body, *words)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert "Traceback" not in err
    assert not list((folder / "tmp").iterdir())
    return process.returncode, out, err.splitlines()


def await_file(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert path.exists()


def descendants(pid: int) -> list[int]:
    found = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [inner for child in found for inner in descendants(child)]


def test_what_ends_by_itself_has_its_own_exit_code(tmp_path: Path) -> None:
    raised = 'from convert.errors import Unsupported; raise Unsupported("planted")'
    assert run(tmp_path, raised) == (4, "", ["error: planted"])


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)); time.sleep(100)",
        "subprocess.Popen(['sleep', '100'], start_new_session=True); time.sleep(100)",
    ],
    ids=["a loop", "signals blocked", "a child of its own"],
)
def test_the_limit_of_time(tmp_path: Path, body: str) -> None:
    code, out, err = run(tmp_path, f"tempfile.mkdtemp()\n        {body}", "inspect", "m", "--timeout", "0.5")
    assert (code, out) == (6, "")
    assert err == ["error: reading the model was not finished after 0.5 s", "hint: give a larger --timeout"]


@pytest.mark.slow
def test_a_page_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "page.html")
    code, _, err = run(tmp_path, "time.sleep(100)", "inspect", "m", "--report", "page.html", "--timeout", "0.5")
    assert code == 6
    assert any("was not written within" in line for line in err)


def test_the_limit_of_time_in_json(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, "time.sleep(100)", "inspect", "m", "--timeout", "0.5", "--json")
    told = json.loads(out)
    assert (code, told["exit_code"], told["ok"], told["source"]) == (6, 6, False, "m")
    assert told["error"]["type"] == "ResourceLimit"


def test_a_time_that_is_none(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "pass", "inspect", "m", "--timeout", "nan")
    assert code == 2
    assert "--timeout nan" in err[0]


@pytest.mark.parametrize("body", ["bytearray(4 << 30)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_limit_of_memory(tmp_path: Path, body: str) -> None:
    code, _, (error, hint) = run(tmp_path, body, "inspect", "m", "--memory", "400MB")
    assert code == 6
    assert "out of memory" in error
    assert "reading the model" in error
    assert "--memory" in hint


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_library_that_crashes(tmp_path: Path, name: str) -> None:
    code, _, err = run(tmp_path, f"os.kill(os.getpid(), signal.{name})")
    assert code == 1
    assert err[0] == f"error: a library died with {name} while reading the model"
    assert len(err) == 2


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    """Reading a memory-mapped file behind its new end raises SIGBUS."""
    body = (
        "import mmap; Path('m').write_bytes(bytes(1 << 20)); file = open('m', 'rb'); "
        "data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ); os.truncate('m', 0); bytes(data)"
    )
    code, _, err = run(tmp_path, body)
    assert code == 5
    assert err[0].startswith("error: reading the model was ended by SIGBUS: a file that it reads became shorter")


@pytest.mark.parametrize("group", [False, True], ids=["one process", "group"])
@pytest.mark.parametrize("name", LINES)
def test_a_signal(tmp_path: Path, name: str, group: bool) -> None:
    body = f"tempfile.mkdtemp(); subprocess.Popen(['sleep', '100'], start_new_session=True); {READY}"
    process = start(tmp_path, body, start_new_session=True)
    await_file(tmp_path / "ready")
    left = descendants(process.pid)
    (os.killpg if group else os.kill)(process.pid, getattr(signal, f"SIG{name}"))
    out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + getattr(signal, f"SIG{name}")
    assert (out, err) == ("", f"{LINES[name]}\n")
    assert len(left) == 2
    assert not [pid for pid in left if os.path.exists(f"/proc/{pid}")]
    assert not list((tmp_path / "tmp").iterdir())


def test_every_signal_that_ends_a_process_is_one_line() -> None:
    """Signals of faults, of pipes and file sizes (which Python ignores), and of debuggers are not handled."""
    others = {"KILL", "STOP", "SEGV", "BUS", "FPE", "ILL", "SYS", "TRAP", "PIPE", "XFSZ"}
    harmless = {"CHLD", "CONT", "TSTP", "TTIN", "TTOU", "URG", "WINCH"}
    named = {number.name for number in signal.valid_signals() if isinstance(number, signal.Signals)}
    wanted = {name for name in named if not name.startswith("SIGRT")} - {f"SIG{n}" for n in others | harmless}
    assert wanted == {signal.Signals(number).name for number in signals.ENDS}
    assert all(signals.line_of(number) for number in signals.ENDS)


@pytest.mark.parametrize("name", LINES)
def test_a_signal_while_the_program_is_imported(tmp_path: Path, name: str) -> None:
    (tmp_path / "click.py").write_text('from pathlib import Path; import time; Path("ready").touch(); time.sleep(100)')
    process = start(tmp_path, "pass")
    await_file(tmp_path / "ready")
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.communicate(timeout=30) == ("", f"{LINES[name]}\n")
    assert process.returncode == 128 + getattr(signal, f"SIG{name}")


@pytest.mark.parametrize("name", LINES)
def test_a_signal_before_anybody_watches(tmp_path: Path, name: str) -> None:
    """The signal arrives when the folder for temporary files exists already, but the supervisor does not."""
    forked = f"real = os.fork\nos.fork = lambda: (os.kill(os.getpid(), signal.SIG{name}), real())[1]\nmain()"
    program = PROGRAM.format(body=READY, words=("inspect", "m")).replace("main()", forked)
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, preexec_fn=heed_signals, timeout=60
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (128 + getattr(signal, f"SIG{name}"), LINES[name])
    assert not list((tmp_path / "tmp").iterdir())


def test_a_signal_that_is_to_be_ignored(tmp_path: Path) -> None:
    """`nohup convert …` goes on when the terminal goes."""
    body = 'Path("ready").touch()\n        while not Path("go").exists(): time.sleep(0.01)'
    process = start(tmp_path, body, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    await_file(tmp_path / "ready")
    for pid in (process.pid, *descendants(process.pid)):
        os.kill(pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_who_starts_it_may_ignore_its_children(tmp_path: Path) -> None:
    """Some daemons ignore their children, and so do processes that they start: such a process does not learn how its
    children ended.
    """
    process = start(tmp_path, "sys.exit(7)", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    process.communicate(timeout=30)
    assert process.returncode == 7


@pytest.mark.slow
def test_a_limit_of_processor_time_that_ends_at_once(tmp_path: Path) -> None:
    """If the soft limit equals the hard limit, the kernel sends SIGKILL."""
    process = start(tmp_path, "while True: pass", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (2, 2)))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 6
    assert "the CPU time limit was reached" in told


def test_no_place_for_temporary_files_is_told_with_its_reason(tmp_path: Path) -> None:
    process = start(tmp_path, "pass", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    _, told = process.communicate(timeout=30)
    assert process.returncode == 6
    assert "error: the disk takes no more: File too large" in told


@pytest.mark.slow
def test_sigkill_ends_the_worker_too(tmp_path: Path) -> None:
    process = start(tmp_path, READY)
    await_file(tmp_path / "ready")
    left = descendants(process.pid)
    process.kill()
    process.communicate(timeout=30)
    end = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in left) and time.monotonic() < end:
        time.sleep(0.01)
    assert left
    assert not [pid for pid in left if os.path.exists(f"/proc/{pid}")]
    assert list((tmp_path / "tmp").iterdir())
    program = PROGRAM.format(body="pass", words=("inspect", "m"))
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=30, check=True)
    assert not list((tmp_path / "tmp").iterdir()), "the next run sweeps what is left"


@pytest.mark.slow
@pytest.mark.parametrize("old", ["file", "folder"])
def test_an_output_that_was_being_written(tmp_path: Path, old: str) -> None:
    output = tmp_path / "out"
    if old == "folder":
        output.mkdir()
        (output / "part").write_text("old")
    else:
        output.write_text("old")
    body = (
        "from convert.files.output import atomic_replacement\n"
        '        with atomic_replacement(Path("out"), force=True) as new:\n'
        f'            new.write_text("new"); {READY}'
    )
    process = start(tmp_path, body)
    await_file(tmp_path / "ready")
    process.terminate()
    process.communicate(timeout=30)
    assert (output / "part" if old == "folder" else output).read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "ready", "tmp"]


@pytest.mark.slow
def test_the_cursor_of_a_terminal_is_shown_again(tmp_path: Path) -> None:
    """A process that is killed while its spinner runs cannot restore the cursor itself."""
    master, slave = pty.openpty()
    process = start(tmp_path, "time.sleep(100)", "inspect", "m", "--timeout", "2", stderr=slave)
    os.close(slave)
    process.wait(30)
    told = read_all(master)
    assert process.returncode == 6
    assert told.rfind("\x1b[?25h") > told.rfind("\x1b[?25l")
    assert "was not finished after 2 s" in told


def read_all(descriptor: int) -> str:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:  # Linux returns EIO if the other end of a terminal is closed
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


@pytest.mark.parametrize("words", [("formats",), ("--help",), ("inspect", "--nothing"), ("inspect", "--help")])
def test_what_reads_no_model_needs_no_second_process(tmp_path: Path, words: Sequence[str]) -> None:
    program = (
        f"import os, sys; del os.fork; sys.argv = ['convert', *{list(words)!r}]; from convert.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if "--nothing" in words else 0), done.stderr


@pytest.mark.parametrize("name", LINES)
def test_a_signal_while_the_interpreter_ends(tmp_path: Path, name: str) -> None:
    """At that time the interpreter would have restored the default handlers. The work is done, and no other message is
    printed.
    """
    late = f"""
import os, signal, sys
class Late:
    def __del__(self, kill=os.kill, own=os.getpid, number=signal.SIG{name}):
        kill(own(), number)
sys.late = Late()
"""
    program = late + PROGRAM.format(body="pass", words=("inspect", "m"))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_little_is_imported_before_an_interrupt_is_one_line() -> None:
    # Importing typing takes longer than Python's own start; an interrupt during that time printed a traceback.
    place = str(Path(__file__).parents[3])
    code = f"import sys; sys.path.insert(0, {place!r}); import convert.cli.signals; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not {"typing", "pkgutil", "contextlib", "inspect", "pathlib"} & set(done.stdout.split())
