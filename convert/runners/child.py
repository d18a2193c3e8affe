"""The child's side of `process`: reads the job, runs it under its limits, leaves outputs or an error behind."""

from __future__ import annotations

import json
import pickle
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from convert import plugin
from convert.errors import ConvertError, ResourceLimit, Unsupported
from convert.runners.process import load_arrays, run_all, save_arrays


def run(arguments: Sequence[str]) -> None:
    """Run the job in the folder that is named; a missing status file afterwards means that this process died."""
    folder = Path(arguments[0])
    source, count, precisions, options, limits = pickle.loads((folder / "job.pickle").read_bytes())
    if limits.memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    status: dict[str, object] = {"unsupported": {}}
    try:
        runner = plugin.runner_for(source.kind)
        if runner is None:
            raise Unsupported(f"no runner executes a {source.kind}")
        feeds = [load_arrays(folder / f"feed{i}") for i in range(count)]
        found = run_all(runner, source, feeds, precisions, options)
        missing = {}
        for precision, outputs in found.items():
            if isinstance(outputs, Unsupported):
                missing[precision] = outputs.message
                continue
            for i, output in enumerate(outputs):
                save_arrays(folder / f"{precision}{i}", output)
        status["unsupported"] = missing
    except MemoryError:
        status = _told(ResourceLimit(f"running {source.label} ran out of memory"))
    except ConvertError as error:
        status = _told(error)
    except Exception as error:
        text = " ".join(str(error).split())[:600]
        status = _told(ConvertError(f"running {source.label} failed: {type(error).__name__}: {text}"))
    (folder / "status.part").write_text(json.dumps(status))
    (folder / "status.part").rename(folder / "status.json")


def _told(error: ConvertError) -> dict[str, object]:
    return {"error": type(error).__name__, "message": error.message, "hint": error.hint}


if __name__ == "__main__":
    run(sys.argv[1:])
