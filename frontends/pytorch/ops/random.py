"""Random numbers: declared gaps, for a converted model could not be compared with its source."""

from __future__ import annotations

from ..rules import aten

aten.gap(
    "draws random numbers, which two frameworks never draw alike; pass them to forward as an input",
    "rand",
    "randn",
    "rand_like",
    "randn_like",
    "randint",
    "randint_like",
    "randperm",
    "bernoulli",
    "multinomial",
    "normal",
    "uniform",
    "normal_functional",
    "exponential",
    "poisson",
    "binomial",
    "cauchy",
    "geometric",
    "log_normal",
    "random",
)
