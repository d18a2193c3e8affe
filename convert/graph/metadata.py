"""Metadata keys of the shared graph, for facts that ONNX has no field for."""

from __future__ import annotations

OPERATOR_KEY, MODULE_KEY, SOURCE_KEY = "convert.operator", "convert.module", "convert.source"
"""Metadata of a node: the source operator, the module path, and the source line that the node came from."""

DIMS_KEY, GUARDS_KEY = "convert.dims", "convert.guards"
"""Metadata of the model, as JSON: bounds of dynamic dims, {"batch": [1, null]}, and conditions on their sizes,
["h % 8 == 0"].
"""

PATHS_KEY = "convert.paths"
"""Key in the `meta` of the model: one list of size conditions for each path through its Ifs: [["h % 8 != 0"], …]."""

RANGE_KEY = "convert.range"
"""Metadata of an integer input, as JSON: the smallest and the largest value allowed, as ints or names of dims: [1,
"time"].

A third entry "descending" means that the integers must be sorted in descending order; "partition" means that they must
add up to the second entry.
"""

STATE_KEY = "convert.state"
"""Metadata of the model, as JSON by the name of a state's input: the variable, the output with its new value, and its
initial value.

The initial value is a nested list, one number for all elements, or null if it is too large to be written here.
"""

INITIAL_KEY = "convert.initial"
"""Key in the `meta` of a state's input: its initial value, as a tensor."""

MODE_KEY = "convert.mode"
"""Metadata of the model: a sentence that says which of two modes the graph computes, if the source can run in both."""

LAYOUT_KEY = "convert.layout"
"""Metadata of the model: `nhwc` if the frontend's sources are channels-last. Without it they are channels-first."""

SIZE_CHECK_KEY = "convert.size_check"
"""Metadata of a Split that returns its input, and fails for sizes that violate the conditions in the metadata."""

WIDER_KEY = "convert.wider"
"""Metadata of a node that computes in a wider dtype than its operator declares, for the kernel of a runtime.

A format that lacks the wider dtype may compute in the operator's own.
"""

CANCELLING_KEY = "convert.variance"
"""Metadata of a normalization whose variance the source computes as E[x²] − E[x]², which cancels far from zero."""

AS_IS_KEY = "convert.as_is"
"""Metadata of an output that has no channels to move, so that `--layout` leaves it alone."""

DIM_KEY = "convert.dim"
"""Key in the `meta` of a value that holds one size: the dim (an int or a name) that has this size."""

EXACT_KEY = "convert.exact"
"""Key in the `meta` of a tensor: the float64 content that it was rounded from, for the float64 reference."""

NON_TRAINABLE_KEY = "convert.non_trainable"
"""Key in the `meta` of the model: names of initializers that the source does not train, and of their contents.

PyTorch's buffers are an example. Without the key it is unknown which weights are trained.
"""

FILES_KEY = "convert.files"
"""Key in the `meta` of the model: paths of the source's weight files, which no output may overwrite."""

COMPANIONS_KEY = "convert.companions"
"""Key in the `meta` of the model: files that runtimes expect beside a model, by name: paths beside the source, or
content.
"""

CHANNELS_LAST = "convert.channels_last"
"""Domain of nodes whose data inputs and outputs the layout pass made channels-last, for the backends."""


def state_output(name: str) -> str:
    """Return the name of the graph output that holds the new value of the state input `name`."""
    return f"{name}_next"
