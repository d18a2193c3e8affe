"""What a conversion or a verification did, for people (`render`) and for machines (`--json`)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convert.parity.verdict import Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model: its name, dtype (`float32`) and dims (ints, or names of dynamic dims)."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        dims = "[…]" if self.shape is None else "[" + ",".join("?" if d is None else str(d) for d in self.shape) + "]"
        return f"{self.name}: {self.dtype}{dims}"


@dataclass
class Report:
    """The outcome of one `convert`, `verify` or `inspect`.

    `notes` are assumptions and facts the user should know (inferred inputs, specialised dims); `seconds` are wall
    times by stage; `verdict` is None where nothing was verified, and `unverified` then says why.
    """

    command: str
    source: str = ""
    kind: str = ""
    target: str = ""
    format: str = ""
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    operators: dict[str, int] = field(default_factory=dict)
    parameters: int = 0
    weight_bytes: int = 0
    output_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    verdict: Verdict | None = None
    unverified: str = ""
    progress: Callable[[str], None] | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """True unless a verification found a mismatch or could not tell."""
        return self.verdict is None or self.verdict.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code that the command line gives for this report."""
        return 0 if self.verdict is None else self.verdict.exit_code

    def note(self, text: str) -> None:
        """Record something that the user should know, once."""
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage of the work and show it as progress."""
        if self.progress is not None:
            self.progress(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 4)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with a schema version."""
        shown = {k: getattr(self, k) for k in self.__dataclass_fields__ if k not in ("progress", "verdict")}
        for key in ("inputs", "outputs"):
            shown[key] = [asdict(t) for t in shown[key]]
        shown["verdict"] = None if self.verdict is None else self.verdict.to_dict()
        return {"schema": SCHEMA_VERSION, **shown, "ok": self.ok, "exit_code": self.exit_code}

    def to_json(self) -> str:
        """One line of JSON; keys keep their order."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)
