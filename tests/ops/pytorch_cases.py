"""All cases of the PyTorch frontend's rules but those of layers."""

from __future__ import annotations

from pytorch_cases_binary import BINARY, CHOOSE
from pytorch_cases_move import MAKE, MOVE
from pytorch_cases_pick import INDEX, REDUCE
from pytorch_cases_unary import UNARY

CASES = [*UNARY, *BINARY, *CHOOSE, *MAKE, *MOVE, *REDUCE, *INDEX]
