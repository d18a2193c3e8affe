"""Models that released versions of Keras wrote give the outputs that these versions computed (see make.py)."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.tensorflow_helper import read

pytest.importorskip("tensorflow", reason="Keras needs it")

FOLDERS = [
    Path(__file__).parents[2] / "fixtures" / "museum",
    *map(Path, filter(None, [os.environ.get("CONVERT_MUSEUM")])),
]


QUICK = ("dense", "conv", "gru", "states", "attention", "functions")
"""The models that are read in the default suite."""


def _rows() -> list[Any]:
    rows = []
    for archive in (path for folder in FOLDERS for path in sorted(folder.glob("*.zip"))):
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in sorted(opened.namelist()) if not name.endswith(".npz")]
        for name in names:
            marks = [] if Path(name).stem in QUICK else [pytest.mark.slow]
            rows.append(pytest.param(archive, name, id=f"{archive.stem}-{name}", marks=marks))
    return rows


@pytest.mark.parametrize(("archive", "name"), _rows())
def test_files_of_released_versions(archive: Path, name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        path = Path(opened.extract(name, tmp_path))
        with np.load(opened.open(f"{path.stem}.npz")) as arrays:
            given = {key: arrays[key] for key in arrays.files}
    model = read(Source("keras" if path.suffix == ".keras" else "keras-h5", path))
    feeds = [given[f"x{i}"] for i in range(len(given) - 1)]
    got = run(model, dict(zip((str(v.name) for v in model.graph.inputs), feeds, strict=True)))
    np.testing.assert_allclose(next(iter(got.values())), given["y0"], 1e-4, 1e-5)
