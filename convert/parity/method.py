"""How a pair is verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convert.differences import Difference
from convert.naming import Names
from convert.options import Options
from convert.runners.process import Limits

if TYPE_CHECKING:
    from convert.parity.pairing.counterparts import Counterparts


@dataclass(frozen=True)
class VerifyMethod:
    """How to verify."""

    arrays: Mapping[Any, np.ndarray] | None = None
    """The user's inputs by name or place; None to draw `seeds` sets."""
    seeds: int = 3
    rtol: float | None = None
    atol: float | None = None
    """Tolerances in place of the bound."""
    limits: Limits = field(default_factory=Limits)
    profile: bool = False
    """Whether to measure the errors along the network too."""
    time: bool = False
    """Whether to measure how long runs of both take too."""
    save: Path | None = None
    """The `.npz` file that the inputs are written to."""
    target: Options = field(default_factory=Options)
    """The options to read the target with."""
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Names that belong together in two artefacts of the user's, source to target."""
    counterparts: Counterparts | None = None
    """What was made of these names."""
    names: Names | None = None
    """What the target calls the ends of the graph, if it has no counterparts; None for the names of its format."""
    theirs: bool = False
    """Whether the target is a file of the user's, which may be broken."""
    declared: Sequence[Difference] = ()
    """The declared differences of the two runtimes."""

    @property
    def ends(self) -> Counterparts | Names:
        """The names that the ends of the graph have in the target."""
        return self.counterparts or self.names or Names()

    @property
    def tolerant(self) -> bool:
        """Whether tolerances replace the bound."""
        return self.rtol is not None or self.atol is not None
