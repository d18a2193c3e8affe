"""Runs a `.toy`."""

import json

import numpy as np

KINDS = ("toy",)
FUNCTIONS = {f.__name__: f for f in (np.add, np.multiply, np.matmul, np.maximum)}


def available():
    return ""


def run(source, feeds, *, precision, options):
    content, found = json.loads(source.file.read_text()), []
    weights = {name: np.array(data, dtype) for name, (dtype, data) in content["weights"].items()}
    for feed in feeds:
        values = {name: x.astype(precision) if x.dtype.kind == "f" else x for name, x in {**weights, **feed}.items()}
        for function, inputs, name in content["steps"]:
            values[name] = FUNCTIONS[function](*(values[i] if isinstance(i, str) else i for i in inputs))
        found.append({name: values[key] for name, key in content["outputs"].items()})
    return found
