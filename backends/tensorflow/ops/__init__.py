"""Rules of the TensorFlow backend, one module per topic. Importing this package fills `rules.onnx_op`."""

from __future__ import annotations

from convert.rules.scan import import_modules

import_modules(__name__, __path__)
