"""The request to a worker: one conversion with its options, as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from convert.batch.plan import Task


@dataclass(frozen=True)
class TaskRequest:
    """A conversion of `source` to `format` at `output`; `options` are named and typed as in a manifest."""

    source: str
    format: str
    output: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, task: Task) -> TaskRequest:
        """Return the request for a task of a plan, whose output must be a local path."""
        return cls(str(task.source), task.format, str(task.output), dict(task.options))

    def to_json(self) -> str:
        """Return one line of ASCII; bytes of a path that are no UTF-8 survive."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskRequest:
        """Return the request of `to_json`."""
        return cls(**json.loads(text))
