"""Run the target as its users do: in each public way, under each setting that changes how its runtime computes.

The first way under the first setting is compared and reported. The others must pass with the same bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from convert import plugin
from convert.errors import ConvertError, Unsupported
from convert.outcome.notes import Note
from convert.processes.process import RunningChild, execute, settings_of
from convert.processes.run_here import AS_USED, Limits, Outputs
from convert.request.options import Options
from convert.request.source import Source

Arrays = Sequence[Mapping[str, np.ndarray]]


@dataclass
class TargetRuns:
    """Running processes of the target, one for each of its settings.

    notes: other runtimes that do not accept the target; filled by `results`.
    """

    children: list[tuple[str, RunningChild]] = field(default_factory=list)
    kind: str = ""
    notes: list[Note] = field(default_factory=list)

    def stop(self) -> None:
        """End the processes that still run."""
        for _, child in self.children:
            child.stop()

    def results(self) -> dict[str, Outputs] | ConvertError:
        """Return outputs by way and setting, or the error if one of them fails."""
        found: dict[str, Outputs] = {}
        errors: list[tuple[str, ConvertError]] = []
        optional = getattr(plugin.runner_for(self.kind), "OTHER_RUNTIMES", ())
        for setting, child in self.children:
            try:
                ways = child.results()
            except ConvertError as error:
                errors.append((setting, error))
                continue
            for way, outputs in ways.items():
                if isinstance(outputs, Unsupported) and way in optional:
                    self.notes.append(Note(outputs.sentence, code="other-runtime"))
                elif isinstance(outputs, Unsupported):
                    errors.append((setting, outputs))
                else:
                    found[", ".join(filter(None, (way, setting)))] = outputs
        if not errors:
            return found
        setting, first = errors[0]
        if setting and len({name for name, _ in errors}) < len(self.children):
            first.message = f"{setting}: {first.message}"
        first.message = f"{first.message} (the target of the comparison)"
        return first


def start(
    target: Source, feeds: Arrays, options: Options, limits: Limits, optional: int, *, at_once: bool = True
) -> TargetRuns:
    """Start running `target` on each feed, under all settings at once or one after another.

    optional: how many of the last feeds may fail.
    """
    settings = settings_of(target)
    runs = TargetRuns(kind=target.kind)
    for number, variables in enumerate(settings):
        name = " ".join(f"{k}={v}" for k, v in variables.items()) if len(settings) > 1 else ""
        child = execute(target, feeds, (AS_USED,), options, limits, optional, number)
        runs.children.append((f"with {name}" if name else "", child))
        if not at_once:
            child.finish()
    return runs
