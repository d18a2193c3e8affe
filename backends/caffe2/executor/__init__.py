"""Runs Caffe2 nets without Caffe2, stricter than the runtime: what `convert verify` takes where there is none."""
