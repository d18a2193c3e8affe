"""The executor's kernels, one module per topic. Importing this package fills the table `table.kernel`."""

from __future__ import annotations

from convert.rules.scan import import_modules

import_modules(__name__, __path__)
