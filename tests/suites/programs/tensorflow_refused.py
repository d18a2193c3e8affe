"""The TensorFlow programs that each format refuses, with a pattern of the message."""

from __future__ import annotations

_SUBGRAPHS = "Keras's functional models have no subgraphs"
_SHAPE = "computed at run time|of dynamic number|a dim of which nothing is known"
_DATA = "a result whose shape depends on the data"
_KERAS = {
    **dict.fromkeys(
        [
            "while_with_a_list",
            "ragged_map",
            "while_of_integers",
            "conditions_in_conditions",
            "switch_of_four",
            "loop_with_break",
            "array_read_in_a_loop",
        ],
        _SUBGRAPHS,
    ),
    **dict.fromkeys(
        ["mapped_rows", "mapped_pairs", "folded_rows", "folded_backwards", "scanned_pairs", "scanned_backwards"],
        _SUBGRAPHS,
    ),
    **dict.fromkeys(
        ["doubled_until_large", "condition_on_a_size", "branches_of_other_lengths", "cumulative"], _SUBGRAPHS
    ),
    **dict.fromkeys(["ragged_sums", "solvers", "dims_of_data"], _SHAPE),
    "transposed_convolution": _SHAPE,
    "non_max_suppression": _DATA,
    "uniques": _DATA,
    **dict.fromkeys(["strings", "formatted_numbers", "vocabulary", "bags_of_words"], "no operations on STRING"),
    **dict.fromkeys(["complex_numbers", "spectra"], "Keras has no complex tensors in its models"),
    **dict.fromkeys(["sparse_tensors", "saliency", "diagonals_of_data"], _SHAPE),
}

_TORCH = {
    **dict.fromkeys(["strings", "formatted_numbers", "vocabulary", "bags_of_words"], "PyTorch has no tensors of text"),
    **dict.fromkeys(["computed_places", "saliency"], "depends on the values of a tensor"),
    "einsum_with_dots": "of sizes that are not known",
}

REFUSED: dict[str, dict[str, str]] = {"onnx": {}, "tf": {}, "tf-frozen": {}, "keras": _KERAS, "torch": _TORCH}
"""Reasons of refusals, by format and program."""
