"""The ways in which an artefact stores numbers narrower than its source does, as runners tell them from the file."""

from __future__ import annotations

HALF, WEIGHTS, FULL = "float16", "int8 weights", "int8"
HALF_VALUES, BRAIN = "float16 values", "bfloat16"
WHOLE_TENSORS, STEPS, FOUR_BITS = "int8 weights, activations by tensor", "int8 steps", "int4 weights in blocks of"
STORED = (HALF, WEIGHTS, FULL, HALF_VALUES, BRAIN, WHOLE_TENSORS, STEPS, FOUR_BITS)
"""How an artefact may store numbers on purpose: weights in half precision; weights in 8 bits (and the activations that
meet them as they come, with a range for each example); weights and activations in 8 bits, with ranges from calibration
data, TensorFlow Lite's prescribed ones among them. Of ONNX's: every number that stands it in half precision; weights in
bfloat16; weights in 8 bits and the activations that meet them with one range for the tensor; weights and activations in
8 bits with ranges from calibration data alone; weights in 4 bits, with a scale for each block of so many (`FOUR_BITS`
and the number)."""
CALIBRATED = (FULL, STEPS)
"""Those that are right in the ranges of their calibration data only."""
STEPS_AT_RUN_TIME = (WEIGHTS, WHOLE_TENSORS)
"""Those whose runtime rounds the activations that meet weights as they come."""
