"""The files of Caffe2, which a frontend, a backend and two runners read: nets, weights, databases."""
