"""Tiny models, and rules that fail or hang, for the tests of `convert batch`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from convert.batch.plan import Task, plan_tasks

# A file of rules runs before the conversion. Each of these rules makes its task fail, or hang, in a different way.
MISBEHAVIOUR = {
    "crash": "import os\nos.abort()\n",
    "hang": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])\n",
    "hog": "held = []\nwhile True: held.append(b'x' * (1 << 24))\n",
    # 0x4000 is MAP_NORESERVE, which reserves addresses but no memory.
    "grab": "import mmap\nmmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n",
    "large": "held = b'x' * (500 << 20)\n",
    "error": "raise ValueError('on purpose')\n",
}


def tiny(path: Path, seed: int = 0, operator: str = "Relu", domain: str = "") -> Path:
    """Write a model of one product and one operator, with weights that depend on the number."""
    w = numpy_helper.from_array(np.random.default_rng(seed).random((3, 3)).astype(np.float32), "w")
    ends = [helper.make_tensor_value_info(n, 1, ["batch", 3]) for n in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node(operator, ["h"], ["y"], domain=domain)]
    graph = helper.make_graph(nodes, "tiny", ends[:1], ends[1:], [w])
    opsets = [helper.make_opsetid("", 20)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def rules(folder: Path) -> dict[str, str]:
    """Write the files of `MISBEHAVIOUR`; return their paths by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in MISBEHAVIOUR.items():
        (folder / f"{name}.py").write_text(text)
    return {name: str(folder / f"{name}.py") for name in MISBEHAVIOUR}


def tasks_of(
    *what: str | Path, to: tuple[str, ...] = ("onnx",), output: Path = Path("out"), **options: Any
) -> list[Task]:
    """Return the tasks of models that are not verified."""
    return plan_tasks(map(str, what), to, output, {"verify": False, **options}, 120.0, None)
