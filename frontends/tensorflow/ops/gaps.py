"""Declared gaps: operators that cannot be expressed, with the reason that a user is told."""

from __future__ import annotations

from ..refused import STATE, UNSAFE
from ..rules import node

node.gap("changes the model's state, which a converted model does not have", *sorted(STATE))
node.gap("touches files, other machines or Python", *sorted(UNSAFE))
