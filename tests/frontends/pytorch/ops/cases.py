"""All cases of the PyTorch frontend's rules but those of layers."""

from __future__ import annotations

from tests.frontends.pytorch.ops.cases_binary import BINARY, CHOOSE
from tests.frontends.pytorch.ops.cases_move import MAKE, MOVE
from tests.frontends.pytorch.ops.cases_pick import INDEX, REDUCE
from tests.frontends.pytorch.ops.cases_unary import UNARY

CASES = [*UNARY, *BINARY, *CHOOSE, *MAKE, *MOVE, *REDUCE, *INDEX]
