"""Options of a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convert.processes.run_here import Limits
from convert.request.naming import Names
from convert.request.options import Options
from convert.runtimes.differences import Difference

if TYPE_CHECKING:
    from convert.parity.pairing.counterparts import Counterparts


@dataclass(frozen=True)
class VerifyMethod:
    """How to verify a pair."""

    arrays: Mapping[Any, np.ndarray] | None = None
    """The user's inputs by name or index; None to generate `seeds` sets."""
    seeds: int = 3
    rtol: float | None = None
    atol: float | None = None
    """Tolerances that replace the bound."""
    limits: Limits = field(default_factory=Limits)
    profile: bool = False
    """Whether to measure the errors along the network too."""
    time: bool = False
    """Whether to measure the latency of both sides too."""
    save: Path | None = None
    """The `.npz` file to write the inputs to."""
    reduce: Path | None = None
    """The `.onnx` file to write the smallest failing part to."""
    target: Options = field(default_factory=Options)
    """The options for reading the target."""
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Pairs of names from the user, source to target, for two given artefacts."""
    counterparts: Counterparts | None = None
    """The inputs and outputs that were paired with the help of `pairs`."""
    names: Names | None = None
    """The target's names of the graph's inputs and outputs, without counterparts; None for those of its format."""
    theirs: bool = False
    """Whether the target is a file of the user's, which may be broken."""
    declared: Sequence[Difference] = ()
    """The declared differences of the two runtimes."""

    @property
    def ends(self) -> Counterparts | Names:
        """Return the target's names of the graph's inputs and outputs."""
        return self.counterparts or self.names or Names()

    @property
    def tolerant(self) -> bool:
        """Return whether tolerances replace the bound."""
        return self.rtol is not None or self.atol is not None
