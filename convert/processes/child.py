"""The child's side of `process`: confines itself, reads the job, runs it, and writes outputs or an error.

Nothing that starts a thread is imported before the process is confined.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from convert.errors import ConvertError, ResourceLimit, Unsupported, limit_of_system
from convert.processes.sandbox import confine, die_with_parent

if TYPE_CHECKING:
    from convert.processes.run_here import Limits


def run(arguments: Sequence[str]) -> None:
    """Run the job in the folder of the first argument; without a status file afterwards, this process died."""
    folder = Path(arguments[0])
    wanted = json.loads((folder / "confine.json").read_text())
    confine(folder, wanted["seconds"], wanted["memory"], programs=wanted["programs"], trust=wanted["trust"])
    _run_job(folder)


def _run_job(folder: Path) -> None:
    from convert import plugin
    from convert.processes.arrays import load_arrays, save_arrays
    from convert.processes.done import report_to_parent
    from convert.processes.run_here import failed_run, run_all
    from convert.rules.user_files import load_code, load_rules

    source, count, limits, how = pickle.loads((folder / "job.pickle").read_bytes())
    status: dict[str, object] = {"unsupported": {}}
    report_to_parent(folder)
    try:
        load_rules(how[1].rules)
        load_code(how[1].code)
        runner = plugin.runner_for(source.kind)
        if runner is None:
            raise Unsupported(f"no runner executes a {source.kind}")
        feeds = [load_arrays(folder / f"feed{i}") for i in range(count)]
        found = run_all(runner, source, feeds, *how)
        missing, counts = {}, list[tuple[str, int]]()
        for precision, outputs in found.items():
            if isinstance(outputs, Unsupported):
                missing[precision] = outputs.sentence
                continue
            for i, output in enumerate(outputs):
                save_arrays(folder / f"{len(counts)}.{i}", output)
            counts.append((precision, len(outputs)))
        status |= {"unsupported": missing, "outputs": counts}
    except MemoryError:
        status = _error_record(ResourceLimit(f"running {source.label} ran out of memory"))
    except ConvertError as error:
        status = _error_record(_limit_error(limits, source.label, error))
    except Exception as error:
        status = _error_record(_limit_error(limits, source.label, failed_run(source, error)))
    (folder / "status.part").write_text(json.dumps(status))
    (folder / "status.part").rename(folder / "status.json")


def _limit_error(limits: Limits, label: str, error: ConvertError) -> ConvertError:
    """Return the error, or a resource-limit error if that is its cause: each runtime reports it in its own words."""
    from convert.processes.run_here import NO_MEMORY

    if (exhausted := limit_of_system(error.message)) is not None and limits.memory is None:
        return exhausted
    if limits.memory is None or not NO_MEMORY.search(error.message):
        return error
    text = f"running {label} did not fit into {limits.memory / 1e9:.2f} GB of memory: {error.sentence}"
    return ResourceLimit(text, hint="give a larger --memory")


def _error_record(error: ConvertError) -> dict[str, object]:
    return {"error": type(error).__name__, "message": error.message, "hint": error.hint}


if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    run(sys.argv[1:])
