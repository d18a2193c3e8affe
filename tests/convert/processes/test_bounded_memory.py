"""Memory of a process in which a file makes a library run code: a command's process, and a program's."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from convert.processes import sandbox


@pytest.mark.parametrize("alone", [True, False])
def test_memory_is_bounded_while_a_program_does_nothing_but_read(alone: bool) -> None:
    code = f"""
import resource, threading, time
from convert.processes.sandbox import bounded_memory, in_reading_thread
if not {alone}:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
def read():
    with bounded_memory(50 << 20):
        bytearray(200 << 20)
before = resource.getrlimit(resource.RLIMIT_DATA)
try:
    in_reading_thread(read)
    print("taken")
except MemoryError:
    print("refused")
assert resource.getrlimit(resource.RLIMIT_DATA) == before
with bounded_memory(50 << 20):  # the user's own work
    bytearray(200 << 20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("refused\n" if alone else "taken\n", "")


def test_memory_is_bounded_where_the_process_is_the_commands_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with sandbox.bounded_memory(50 << 20):  # other work may run in this process
        assert len(bytearray(200 << 20)) == 200 << 20
    monkeypatch.setattr(sandbox, "_has_own_process", [True])
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(MemoryError), sandbox.bounded_memory(50 << 20):
        bytearray(200 << 20)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(bytearray(200 << 20)) == 200 << 20
