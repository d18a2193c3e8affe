"""Archives of models with their inputs and outputs, written by the makers (Python 3.6 and later, nothing but NumPy)."""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import atexit
import io
import json
import os
import signal
import sys
import tempfile
import traceback
import zipfile

import numpy as np


class Archive:
    """A zip file with models and, for each model, NAME.npz: inputs x0, x1, … and outputs y0, y1, … in order.

    With the environment variable MUSEUM_PART=K/N, the models K, K + N, K + 2N, … are made and no others.
    """

    def __init__(self, target):
        self._attempts = 0
        self._zip = zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED)
        self._folder = tempfile.TemporaryDirectory()
        # An old converter may take minutes for a model. A maker that is stopped keeps what it has made.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
        atexit.register(self.close)

    def path(self, name):
        """Return a new temporary path that ends in `name`."""
        return os.path.join(tempfile.mkdtemp(dir=self._folder.name), name)

    def arrays(self, name, given, computed, **options):
        """Write NAME.npz: the arrays `given` to a model and `computed` by it.

        `options` are those of a conversion without which the model is refused.
        """
        content = io.BytesIO()
        named = {f"x{i}": np.asarray(array) for i, array in enumerate(given)}
        named.update({f"y{i}": np.asarray(array) for i, array in enumerate(computed)})
        named["options"] = np.asarray(json.dumps(options))
        np.savez(content, **named)
        self._zip.writestr(name + ".npz", content.getvalue())

    def file(self, path, name=None):
        """Add a file, or a folder with all its files, as `name`."""
        name = name or os.path.basename(path)
        if not os.path.isdir(path):
            self._zip.write(path, name)
        for folder, _, files in os.walk(path):
            for file in files:
                inside = os.path.relpath(os.path.join(folder, file), path)
                self._zip.write(os.path.join(folder, file), name + "/" + inside.replace(os.sep, "/"))

    def attempt(self, name, make):
        """Call `make()`, and report a model that this release cannot make."""
        first, step = (int(part) for part in os.environ.get("MUSEUM_PART", "1/1").split("/"))
        self._attempts += 1
        if (self._attempts - first) % step:
            return
        try:
            make()
        except Exception as error:  # releases lack features in many ways
            if os.environ.get("MUSEUM_TRACEBACKS"):
                traceback.print_exc()
            print(f"left out {name}: {type(error).__name__}: {str(error).strip()[:150]}", flush=True)

    def close(self):
        """Finish the archive."""
        self._zip.close()
        self._folder.cleanup()
