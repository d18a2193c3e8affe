"""Runs Caffe2 nets without Caffe2, more strictly than the runtime; `convert verify` uses it if there is no Caffe2."""
