"""The keys under which the shared graph carries more than ONNX has fields for, each with what it means."""

from __future__ import annotations

OPERATOR_KEY, MODULE_KEY, SOURCE_KEY = "convert.operator", "convert.module", "convert.source"
"""Metadata of a node: the source's operator, the path of the module and the line of source that it came from."""

DIMS_KEY, GUARDS_KEY = "convert.dims", "convert.guards"
"""Metadata of the model, JSON: bounds of dynamic dims, {"batch": [1, null]}, and conditions on their sizes,
["h % 8 == 0"]."""

WAYS_KEY = "convert.ways"
"""In the `meta` of the model: lists of conditions on sizes, one for each way that its Ifs take: [["h % 8 != 0"], …]."""

RANGE_KEY = "convert.range"
"""Metadata of an input of integers, JSON: the least and the greatest that it may hold, ints or names of dims,
[1, "time"], and behind them "descending" where they have to be in that order, or "partition" where they have to add up
to the second."""

STATE_KEY = "convert.state"
"""Metadata of the model, JSON by the name of a state's input: the variable, the output that has its new value, and what
it starts with: nested lists, one number for all elements, or null where that is too much to be written here."""

INITIAL_KEY = "convert.initial"
"""In the `meta` of a state's input: the tensor that it starts with."""

MODE_KEY = "convert.mode"
"""Metadata of the model: a sentence where one of two ways of running the source is what its graph computes."""

LAYOUT_KEY = "convert.layout"
"""Metadata of the model: `nhwc` where a frontend's sources have their channels last. Without it they are first."""

SIZE_CHECK_KEY = "convert.size_check"
"""Metadata of a Split that gives its input, and fails for sizes that do not meet these conditions."""

WIDER_KEY = "convert.wider"
"""Metadata of a node that computes in a wider dtype than its operator says, as a runtime's kernel does: a format that
lacks the dtype may have it in the operator's."""

DIM_KEY = "convert.dim"
"""In the `meta` of a value that holds one size: the dim of the graph (an int or a name) whose size that is."""

EXACT_KEY = "convert.exact"
"""In the `meta` of a tensor: the float64 content that it was rounded from, which the float64
reference computes with."""

NON_TRAINABLE_KEY = "convert.non_trainable"
"""In the `meta` of the model: the names of initializers, and of their contents, that the source does not train, such
as PyTorch's buffers. Without it nobody knows."""

FILES_KEY = "convert.files"
"""In the `meta` of the model: paths of the files beside the source that its weights are in, which no output may hit."""

COMPANIONS_KEY = "convert.companions"
"""In the `meta` of the model: files beside the source that runtimes look for beside a model; paths by name."""

CHANNELS_LAST = "convert.channels_last"
"""Domain of nodes whose data inputs and outputs the layout pass has made channels-last, for the backends."""


def state_output(name: str) -> str:
    """The name of the graph output that holds the new value of the state input `name`."""
    return f"{name}_next"
