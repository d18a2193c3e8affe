"""Score the verdict on narrow dtypes: each network in each form, as it should be and with defects.

    python tests/suites/planted_narrow.py [--only NETWORK] [--forms FORM,FORM]

It prints one line for each pair. The exit code is 1 after a false alarm, or a miss that `NOT_FOUND` does not name.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import convert
from tests.support.narrow_defects import DEFECTS, FORMS, NETWORKS, NOT_FOUND, UNAVAILABLE, network, samples, spec


def score(name: str, form: str, folder: Path) -> list[tuple[str, str, str]]:
    """Return rows of the planted defect, the status and the reason."""
    format_, options, factor = FORMS[form]
    given = samples(name)
    inputs = given if "calibrate" in options else spec(name)
    options = options | ({"calibrate": given} if "calibrate" in options else {})
    clean, changed = folder / f"clean.{format_}", folder / f"changed.{format_}"
    convert.convert(network(name), format_, clean, inputs=spec(name), verify=False, force=True, **options)
    step = float(np.ptp(network(name)(torch.from_numpy(given["x"])).detach().numpy())) / 255
    rows = []
    for defect, plant in {"": None, **DEFECTS}.items():
        shutil.copy(clean, changed)
        if plant is None or plant(changed, factor, step):
            verdict = convert.verify(network(name), changed, inputs=inputs).verdict
            assert verdict is not None
            rows.append((defect, verdict.status, verdict.reason))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NETWORKS, action="append")
    parser.add_argument("--forms", default=",".join(FORMS))
    args = parser.parse_args()
    wrong = found = clean = 0
    with tempfile.TemporaryDirectory(prefix="convert-") as folder:
        for name in args.only or NETWORKS:
            for form in args.forms.split(","):
                for defect, status, reason in [] if (name, form) in UNAVAILABLE else score(name, form, Path(folder)):
                    known = (name, form, defect) in NOT_FOUND
                    right = (status == "PASS") == (not defect or known)
                    wrong, clean, found = wrong + (not right), clean + (not defect), found + bool(defect and right)
                    print(f"{name}, {form}: {defect or 'clean'}: {status}{'' if right else ' (wrong)'} {reason[:120]}")
    print(f"{clean} clean pairs, {found} defects judged as expected, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
