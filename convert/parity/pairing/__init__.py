"""Two artefacts: which inputs, outputs and weights belong together."""
