"""Rules for ragged tensors, as values and row starts."""
