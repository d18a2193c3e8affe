"""Run hostile files with the checks of their content switched off, in the sandbox or, as a control, without it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
from convert.processes.sandbox import confine
own, jobs, sandbox = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), sys.argv[3] == "1"
if sandbox:
    confine(own, 120, None)
from convert import plugin
from convert.request.options import Options
from convert.request.source import Source
told = []
for kind, path, name, shape in jobs:
    runner, feeds = plugin.runner_for(kind), [{name: np.ones(shape, np.float32)}]
    for call in ("run", "run_as_used"):
        try:
            if call == "run":
                runner.run(Source(kind, Path(path)), feeds, precision="float32", options=Options(trust=True))
            elif hasattr(runner, "run_as_used"):
                runner.run_as_used(Source(kind, Path(path)), feeds, Options(trust=True))
            told.append([path, call, ""])
        except BaseException as error:
            told.append([path, call, f"{type(error).__name__}: {error}"[:300]])
        (own / "told.json").write_text(json.dumps(told))
"""


@dataclass(frozen=True)
class Hostile:
    """A file and its input, which runs as a source and as a target."""

    kind: str
    path: Path
    name: str
    shape: tuple[int, ...]


def run_trusted(
    folder: Path, files: Sequence[Hostile], *, sandbox: bool, seconds: float = 90.0
) -> Mapping[tuple[str, str], str]:
    """Return the error of each file and call, or "" if there was none; all run in one child process.

    The child is killed after `seconds`, and files that it did not reach are left out.
    """
    own = Path(tempfile.mkdtemp(dir=folder))
    jobs = [[f.kind, str(f.path), f.name, list(f.shape)] for f in files]
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, "-c", _PROGRAM, str(own), str(folder / "jobs.json"), str(int(sandbox))]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if not (own / "told.json").exists():
        return {}
    return {(path, call): why for path, call, why in json.loads((own / "told.json").read_text())}
