"""The rules of TensorFlow Lite's operators, one module per topic. Importing this package fills `rules.tflite_op`."""

from __future__ import annotations

from convert.rules.scan import import_modules

import_modules(__name__, __path__)
