"""Helpers that several rules of the Caffe2 backend share: dtypes, shapes, indices, padding, windows, loops."""
