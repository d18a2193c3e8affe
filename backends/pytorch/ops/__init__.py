"""Rules of the PyTorch backend, one module per topic. Importing this package fills the table."""

from __future__ import annotations

from convert.rules.scan import import_modules

import_modules(__name__, __path__)
