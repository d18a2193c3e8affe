"""Runs Caffe2 nets on a real Caffe2, which lives in a Python of its own."""
