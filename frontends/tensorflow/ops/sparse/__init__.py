"""Rules for sparse tensors, as indices, values and shape."""
