"""The ONNX programs that each format refuses, with a pattern of the message."""

from __future__ import annotations

_KERAS_SUBGRAPHS = "Keras's functional models have no subgraphs"
_KERAS_SEQUENCES = "Keras has no sequences and optionals of tensors"
_DATA = "a result whose shape depends on the data"
_WINDOWS = "SAME_LOWER, or ceil_mode with a stride as long as the window, over a dim of dynamic size"
_INLINER = "the model's functions cannot be inlined"  # onnx's inliner, which has to know the type of what it converts

_CONTROL = [
    "loop_with_scan_output",
    "loop_without_a_round",
    "loop_whose_condition_starts_false",
    "loop_until_a_condition",
    "loop_whose_state_grows",
    "loop_in_a_loop",
    "if_in_a_loop",
    "branches_of_other_lengths",
    "branches_of_other_ranks",
    "if_with_names_used_twice",
    "if_of_three_outputs_one_unused",
    "condition_of_one_element",
    "cumulative_scan",
    "scan_backwards_over_another_axis",
    "scan_of_two_inputs_without_state",
    "scan_in_a_scan",
    "scan_of_opset_8",
    "body_reads_around_it_and_shadows_nothing",
    "states_that_change_places",
    "states_of_many_dtypes",
    "loop_over_the_rows",
    "empty_rows_through_a_loop",
    "branch_that_is_a_constant",
    "if_in_an_if",
    "function_with_a_branch_and_an_absent_input",
]
_SEQUENCES = ["sequence_of_parts", "sequence_filled_in_a_loop", "sequence_mapped", "optional_tensor"]

REFUSED: dict[str, dict[str, str]] = {
    "onnx": {"function_of_another_opset": _INLINER},
    "tf": {"function_of_another_opset": _INLINER},
    "keras": {
        **dict.fromkeys(_CONTROL, _KERAS_SUBGRAPHS),
        **dict.fromkeys(_SEQUENCES, _KERAS_SEQUENCES),
        "function_of_another_opset": _INLINER,
        "gemm_of_a_reshape_of_unknown_rank": "the rank of a tensor is not known",
        "nonzero_and_compress": "a condition computed at run time",
        "unique_sorted_and_not": _DATA,
        "strings": "Keras has no operations on STRING",
        "many_words": "Keras has no operations on STRING",
        "convolution_same_auto_pad": _WINDOWS,
        "non_max_suppression": _DATA,
        "top_k_of_a_computed_number": "the number of elements computed at run time",
        "range_and_tile": "repeats computed at run time",
    },
}
"""Reasons of refusals, by format and program."""
REFUSED["tf-frozen"] = REFUSED["tf"]
