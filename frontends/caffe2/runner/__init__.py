"""Runs Caffe2 nets on a real Caffe2, in its own Python."""
