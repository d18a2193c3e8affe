"""Runs artefacts: onnxruntime, and what all runners share: traces, generation, declared inputs and outputs."""
