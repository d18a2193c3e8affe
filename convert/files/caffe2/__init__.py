"""Reads Caffe2's files (nets, weights, databases), for a frontend, a backend and two runners."""
