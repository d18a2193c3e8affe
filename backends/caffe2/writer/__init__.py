"""Writes nets and weights in the files that Caffe2's loaders expect."""
