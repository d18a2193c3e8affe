"""Writes nets and weights as the files that loaders of Caffe2 expect."""
