"""Runs the target as its users do: each way that there is, under each setting by which its runtime computes otherwise.

The first way under the first setting is what is compared and shown; the others have to pass by the same bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from convert import plugin
from convert.errors import ConvertError, Unsupported
from convert.notes import Note
from convert.options import Options
from convert.runners.process import AS_USED, Limits, Outputs, RunningChild, execute, settings_of
from convert.source import Source

Arrays = Sequence[Mapping[str, np.ndarray]]


@dataclass
class TargetRuns:
    """The target at work, once for each of its settings.

    notes: which other runtimes do not take it, once there are results.
    """

    children: list[tuple[str, RunningChild]] = field(default_factory=list)
    kind: str = ""
    notes: list[Note] = field(default_factory=list)

    def stop(self) -> None:
        """End what still runs."""
        for _, child in self.children:
            child.stop()

    def results(self) -> dict[str, Outputs] | ConvertError:
        """Outputs by way and setting, or why one of them does not go."""
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
