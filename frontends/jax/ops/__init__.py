"""The rules, one module a topic; importing this fills the table `rules.stablehlo_op`."""

from __future__ import annotations

from convert.rules.scan import import_modules

import_modules(__name__, __path__)
