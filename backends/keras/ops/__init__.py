"""Rules of the Keras backend. Importing this package fills the table `rules.onnx_op`."""

from __future__ import annotations

from convert.rules.scan import import_modules

import_modules(__name__, __path__)
