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
    """How to verify.

    `arrays` are the user's inputs by name or place (else `seeds` feeds are made); `rtol`/`atol` replace the bound;
    `profile` asks for the errors along the network as well; `save` is where the inputs go (`.npz`); `target` are the
    options to read the target with; `pairs` are names that belong together in two artefacts of the user's, source to
    target, and `counterparts` what was made of them. Without, `names` are what the target calls the graph's ends (None:
    as its format has them called). `theirs`: the target is a file of the user's, which may be broken.
    `declared`: what of the two runtimes is declared to differ.
    """

    arrays: Mapping[Any, np.ndarray] | None = None
    seeds: int = 3
    rtol: float | None = None
    atol: float | None = None
    limits: Limits = field(default_factory=Limits)
    profile: bool = False
    save: Path | None = None
    target: Options = field(default_factory=Options)
    pairs: Mapping[str, str] = field(default_factory=dict)
    counterparts: Counterparts | None = None
    names: Names | None = None
    theirs: bool = False
    declared: Sequence[Difference] = ()

    @property
    def ends(self) -> Counterparts | Names:
        """What belongs together at the ends of the graph and of the target."""
        return self.counterparts or self.names or Names()

    @property
    def tolerant(self) -> bool:
        """Whether tolerances replace the bound."""
        return self.rtol is not None or self.atol is not None
