"""The TensorFlow frontend: reads SavedModels, frozen graphs and Keras models into the shared graph, without running
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from convert.plugin import Operator
from convert.rules.listing import lazy_attributes

from .differences import DIFFERENCES

if TYPE_CHECKING:
    import onnx_ir as ir

    from convert.outcome.report import Node, Report
    from convert.request.options import Options
    from convert.request.source import Source

    from .rules import tf_op as tf_op  # type checkers do not look into __getattr__

KINDS = {
    "savedmodel": "a SavedModel folder of TensorFlow 1 or 2, parsed without loading it",
    "frozen-graph": "a GraphDef (.pb) with its weights as constants",
    "tf-meta": "a TensorFlow 1 checkpoint with its graph (.meta), or the folder that holds it",
    "keras": "a Keras model (.keras, of Keras 2.12 and later) made of Keras's own layers",
    "keras-h5": "a Keras model in one HDF5 file (.h5, .hdf5)",
    "tflite": "a TensorFlow Lite model (.tflite): float, float16, 8-bit, sparse",
    "keras-object": "a Keras model in memory",
    "tf-function-object": "a tf.function or a ConcreteFunction in memory",
    "graphdef-object": "a GraphDef in memory",
}
READS = {
    "code": ("keras", "keras-h5"),
    "outputs": ("frozen-graph", "tf-meta", "graphdef-object"),
    "signature": ("savedmodel", "tf-meta", "tflite"),
}


def claims(model: Any) -> str | None:
    """Return the kind of an object in memory, by the names of its classes; None for other objects."""
    names = {f"{c.__module__.partition('.')[0]}.{c.__name__}" for c in type(model).__mro__}
    if any(c.__module__.startswith("keras.src.backend.jax.") for c in type(model).__mro__):
        return None  # the JAX frontend reads it
    if names & {"keras.Model", "keras.Sequential", "tf_keras.Model"}:
        return "keras-object"
    if names & {"tensorflow.ConcreteFunction", "tensorflow.Function", "tensorflow.PolymorphicFunction"}:
        return "tf-function-object"
    descriptor = getattr(model, "DESCRIPTOR", None)
    return "graphdef-object" if getattr(descriptor, "full_name", "") == "tensorflow.GraphDef" else None


def read(source: Source, options: Options, report: Report) -> ir.Model:
    """Lower the model to the shared graph. Raises `BadInput`, `UnsafeInput`, `Unsupported`, `UsageError`."""
    from .reader import read as read_source

    return read_source(source, options, report)


def names_operator(operator: str) -> bool:
    """Return whether TensorFlow has an operator of this name."""
    from .graph import opdefs

    return opdefs.find(operator) is not None


def skeleton(operator: str) -> str:
    """Return the first lines of a rule for `operator`, made from TensorFlow's schema."""
    from convert.rules.skeleton import skeleton as written

    from . import ops  # noqa: F401  (fills the table)
    from .graph import opdefs
    from .rules import tf_op

    found = opdefs.find(operator)
    signature = "" if found is None else f"{operator}({', '.join(a.name for a in found.inputs)})"
    return written(tf_op, operator, opdefs.schema(operator), signature, __name__, "tf_op")


def list_nodes(source: Source, options: Options) -> list[Node] | None:
    """Return the nodes of a frozen graph or a checkpoint's graph, by the names for `--outputs`; None for other
    kinds.
    """
    if source.kind not in READS["outputs"]:
        return None
    from .files.listing import list_nodes

    return list_nodes(source, options)


def prepare(source: Source, options: Options) -> None:
    """Start TensorFlow's threads, which the whole program shares, if reading the file runs TensorFlow."""
    if source.kind in ("keras", "keras-h5"):
        from convert.runtimes.start_tensorflow import import_tensorflow

        tf = import_tensorflow()
        tf.function(tf.identity)(tf.zeros([]))  # devices start threads, and so do traced functions


def preload() -> None:
    """Import the modules needed to read and run, without starting a thread, because warm workers fork afterwards."""
    from convert.runtimes.start_tensorflow import import_tensorflow

    import_tensorflow(start=False)
    from . import ops, reader, walker  # noqa: F401
    from .graph import control_flow_v1  # noqa: F401
    from .lite import reader as lite_reader  # noqa: F401


def operators() -> Iterable[Operator]:
    """Yield every operator with a rule, and the declared gaps with their reasons; TensorFlow Lite's as
    `tflite::ADD`.
    """
    from convert.runtimes.differences import reasons_by_operator

    from .graph.control_flow_v1 import OPERATORS
    from .lite import ops as lite_ops  # noqa: F401  (fills the table)
    from .lite.rules import tflite_op
    from .rules import tf_op
    from .walker import PLUMBING

    differs = reasons_by_operator(DIFFERENCES)
    names = sorted({*tf_op.entries, *PLUMBING, *OPERATORS})
    yield from (Operator(name, difference=differs.get(name, "")) for name in names)
    yield from (Operator(name, reason) for name, reason in sorted(tf_op.gaps.items()))
    yield from (Operator(f"tflite::{name}") for name in sorted(tflite_op.entries))
    yield from (Operator(f"tflite::{name}", reason) for name, reason in sorted(tflite_op.gaps.items()))


# The decorator for custom rules. Its old name stays for one release.
__getattr__ = lazy_attributes(__name__, {"tf_op": ".rules"}, renamed={"node": "tf_op"})
