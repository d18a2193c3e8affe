"""Whole ONNX models of layers: convolutions, pools, products, normalizations, recurrent layers, resizes."""

from __future__ import annotations

import numpy as np

from tests.suites.programs.onnx_program import program, weight

R = np.random.default_rng(7)
N123 = ({"N": 1}, {"N": 2}, {"N": 5})
WITH_NONE = ({"N": 0}, {"N": 1}, {"N": 3})

LAYERS = [
    program(
        "depth_to_space_both_ways",
        """
        g (float[N, 8, 2, 3] x) => (float[N, 2, 4, 6] a, float[N, 2, 4, 6] b, float[N, 8, 2, 3] c, float[N, 8, 2, 3]
          d) {
          a = DepthToSpace <blocksize = 2> (x) b = DepthToSpace <blocksize = 2, mode = "CRD"> (x) c = SpaceToDepth
            <blocksize = 2> (a) d = DepthToSpace <blocksize = 1> (x) }""",
        *WITH_NONE,
    ),
    program(
        "softmax_of_all_that_follows",
        """
        g (float[N, 3, 4] x) => (float[N, 3, 4] a, float[N, 3, 4] b, float[N, 3, 4] c, float[N, 3, 4] d, float[N, 3, 4]
          e) {
          a = Softmax <axis = 1> (x) b = LogSoftmax <axis = 1> (x) c = Hardmax <axis = 1> (x) d = Hardmax (x)
          e = Hardmax <axis = 2> (x) }""",
        *N123,
        opset=11,
    ),
    program(
        "integer_pools",
        """
        g (float[N, 2, 6, 6] x, int8[N, 2, 6, 6] z) => (float[N, 2, 3, 3] a, int8[N, 2, 3, 3] b) {
          a = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) b = MaxPool <kernel_shape = [3, 3], strides =
            [2, 2], pads = [1, 1, 0, 0]> (z) }""",
        *N123,
    ),
    program(
        "pools_with_ceil_and_dilations",
        """
        g (float[N, 2, H, 7] x) => (float[N, 2, a, 4] y, float[N, 2, b, 3] z, float[N, 2, c, 4] w) {
          y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
          z = MaxPool <kernel_shape = [2, 3], strides = [2, 1], dilations = [1, 2]> (x)
          w = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1,
            ceil_mode = 1> (x) }""",
        {"N": 1, "H": 5},
        {"N": 2, "H": 6},
        {"N": 3, "H": 7},
    ),
    program(
        "convolutions_of_one_dim",
        """
        g (float[N, 4, T] x) => (float[N, 6, a] y, float[N, 4, b] z, float[N, 2, c] w) {
          y = Conv <kernel_shape = [3], pads = [1, 2], strides = [2], group = 2> (x, w1, b1)
          z = Conv <kernel_shape = [3], dilations = [2], group = 4> (x, w2)  w = ConvTranspose <kernel_shape = [3],
            strides = [2], output_padding = [1]> (x, w3) }""",
        {"N": 1, "T": 5},
        {"N": 2, "T": 8},
        {"N": 3, "T": 6},
        weights={"w1": weight(6, 2, 3), "b1": weight(6), "w2": weight(4, 1, 3), "w3": weight(4, 2, 3)},
    ),
    program(
        "convolution_with_a_computed_weight",
        """
        g (float[N, 3, 6, 6] x, float[4, 3, 3, 3] k) => (float[N, 4, 4, 4] y) { h = Tanh (k) y = Conv (x, h) }""",
        *N123,
    ),
    program(
        "convolution_same_auto_pad",
        """
        g (float[N, 3, H, W] x) => (float[N, 4, a, b] y, float[N, 4, c, d] z) { y = Conv <auto_pad = "SAME_UPPER",
          strides = [2, 2]> (x, w) z = Conv <auto_pad = "SAME_LOWER", strides = [2, 3]> (x, w) }""",
        {"N": 1, "H": 5, "W": 6},
        {"N": 2, "H": 8, "W": 7},
        {"N": 1, "H": 3, "W": 9},
        weights={"w": weight(4, 3, 3, 3)},
    ),
    program(
        "resize_of_fractions",
        """
        g (float[N, 2, 5, 5] x) => (float[N, 2, a, b] y, float[N, 2, 8, 3] z) <float[4] s = {1, 1, 2.6, 0.6},
          int64[4] t = {0, 2, 8, 3}, int64[2] sz = {8, 3}> {
          y = Resize <mode = "linear"> (x, "", s) z = Resize <mode = "nearest", axes = [2, 3],
            coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, "", "", sz) }""",
        *N123,
    ),
    program(
        "normalizations",
        """
        g (float[N, 4, 6] x) => (float[N, 4, 6] a, float[N, 4, 6] b, float[N, 4, 6] c, float[N, 4, 6] d) {
          a = LayerNormalization <axis = -1> (x, s6, b6) b = InstanceNormalization (x, s4, b4) c = LpNormalization
            <axis = 1, p = 1> (x) d = MeanVarianceNormalization <axes = [0, 2]> (x) }""",
        {"N": 2},
        {"N": 3},
        weights={"s6": weight(6), "b6": weight(6), "s4": weight(4), "b4": weight(4)},
    ),
    program(
        "group_norm_of_21",
        "g (float[N, 4, 3] x) => (float[N, 4, 3] y) { y = GroupNormalization <num_groups = 2> (x, s, b) }",
        *N123,
        opset=21,
        weights={"s": weight(4), "b": weight(4)},
    ),
    program(
        "bidirectional_gru_with_lengths",
        """
        g (float[T, N, 3] x, int32[N] lengths) => (float[T, 2, N, 4] y, float[2, N, 4] h) {
          y, h = GRU <hidden_size = 4, direction = "bidirectional", linear_before_reset = 1> (x, w, r, b, lengths)
            }""",
        {"T": 3, "N": 2},
        {"T": 1, "N": 1},
        {"T": 4, "N": 3},
        given={"lengths": [[3, 1], [1], [4, 2, 1]]},
        weights={"w": weight(2, 12, 3), "r": weight(2, 12, 4), "b": weight(2, 24)},
    ),
    program(
        "half_precision",
        "g (float16[N, 4] x) => (float16[N, 3] y) { h = Cast <to = 10> (w) m = MatMul (x, h) y = Sigmoid (m) }",
        *N123,
        weights={"w": weight(4, 3)},
    ),
    program(
        "non_max_suppression",
        """
        g (float[1, K, 4] b, float[1, 2, K] s) => (int64[n, 3] y) <int64 m = {2}, float i = {0.5}, float t = {0.1}>
          { y = NonMaxSuppression (b, s, m, i, t) }""",
        {"K": 1},
        {"K": 5},
    ),
    program(
        "attention_by_hand",
        """
        g (float[N, T, 8] x) => (float[N, T, 8] y) <int64[4] split = {0, 0, 2, 4}, int64[3] join = {0, 0, 8}, float
          scale = {0.5}> {
          q0 = MatMul (x, wq) k0 = MatMul (x, wk) v0 = MatMul (x, wv)
          q1 = Reshape (q0, split) k1 = Reshape (k0, split) v1 = Reshape (v0, split)
          q = Transpose <perm = [0, 2, 1, 3]> (q1) k = Transpose <perm = [0, 2, 3, 1]> (k1) v = Transpose <perm =
            [0, 2, 1, 3]> (v1)
          s0 = MatMul (q, k) s = Mul (s0, scale) p = Softmax (s) o0 = MatMul (p, v) o1 = Transpose <perm = [0, 2, 1,
            3]> (o0) y = Reshape (o1, join) }""",
        {"N": 1, "T": 1},
        {"N": 2, "T": 3},
        {"N": 3, "T": 5},
        weights={"wq": weight(8, 8), "wk": weight(8, 8), "wv": weight(8, 8)},
    ),
    program(
        "top_k_of_a_computed_number",
        """
        g (float[N, 5] x, int64[1] k) => (float[N, K] v, int64[N, K] i) { v, i = TopK <axis = 1, largest = 0> (x, k)
          }""",
        *N123,
        given={"k": [[1], [5], [3]]},
    ),
    program(
        "range_and_tile",
        """
        g (float[N, 2] x, int64 n, int64[2] r) => (int64[k] y, float[a, b] z) <int64 zero = {0}, int64 two = {2}> {
          y = Range (zero, n, two) z = Tile (x, r) }""",
        *N123,
        given={"n": [0, 5, 6], "r": [[1, 1], [2, 0], [3, 2]]},
    ),
    program(
        "pads_that_cut_and_wrap",
        """
        g (float[N, 6] x) => (float[N, 7] a, float[N, 8] b, float[N, 9] c, float[N, 7] d) <int64[4] p = {0, -1, 0,
          2}, int64[4] q = {0, 1, 0, 1}, int64[4] r = {0, 2, 0, 1}, float v = {7}> {
          a = Pad (x, p, v) b = Pad <mode = "reflect"> (x, q) c = Pad <mode = "edge"> (x, r) d = Pad <mode = "wrap">
            (x, p) }""",
        *N123,
    ),
    program(
        "transposed_network_of_channels_last",
        """
        g (float[N, 6, 6, 3] x) => (float[N, 3, 3, 4] y) {
          t = Transpose <perm = [0, 3, 1, 2]> (x) h = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (t, w, b) r =
            Relu (h) y = Transpose <perm = [0, 2, 3, 1]> (r) }""",
        *N123,
        weights={"w": weight(4, 3, 3, 3), "b": weight(4)},
    ),
    program(
        "matrix_of_no_columns",
        """
        g (float[N, 4] x) => (float[N, 0] y, float[N] s) <int64[1] one = {1}> { y = MatMul (x, w) s = ReduceSum
          <keepdims = 0> (y, one) }""",
        *N123,
        weights={"w": np.zeros((4, 0), np.float32)},
    ),
    program(
        "is_nan_is_inf",
        """
        g (float[N] x) => (bool[N] a, bool[N] b, bool[N] c, float[N] d) { a = IsNaN (x) b = IsInf (x) c = IsInf
          <detect_negative = 0> (x) d = Neg (x) }""",
        {"N": 5},
        given={"x": [[np.nan, np.inf, -np.inf, 0, 1]]},
    ),
    program(
        "resize_behind_a_transpose",
        """
        g (float[N, 3, 8, 6] x) => (float[N, 8, 3, 1] y) <int64[2] s = {3, 1}> {
          t = Transpose <perm = [0, 2, 3, 1]> (x)
          y = Resize <axes = [2, 3], mode = "linear", coordinate_transformation_mode = "align_corners"> (t, "", "", s)
        }""",
        *N123,
        oracle="reference",  # onnxruntime's optimizer changes the model into one that does not load
    ),
    program(
        "many_words",
        "g (int64[N] i) => (string[N] y) { y = Gather (w, i) }",
        *N123,
        weights={"w": np.array([f"word {i}" for i in range(3000)], object)},
        below={"i": 3000},
    ),
    program(
        "broadcasts_of_many_groups",
        """
        g (float[N, 1, 3, 1, 2, 1] x, float[1, 4, 1, 2, 1, M] z, float[2, 1, 2, 1, 2, 1, 2] p) => (float[N, 4, 3, 2, 2,
          M] a, float[N, 4, 3, 2, 2, M] b, bool[N, 4, 3, 2, 2, M] c, float[2, 3, 2, 2, 2, 3, 2] d) {
          a = Add (x, z) b = Max (x, z, x) c = Less (x, z) d = Mul (p, q) }""",
        {"N": 1, "M": 3},
        {"N": 2, "M": 1},
        {"N": 3, "M": 2},
        weights={"q": weight(1, 3, 1, 2, 1, 3, 1)},
    ),
    program(
        "leaky_volumes_and_a_width_of_any_size",
        """
        g (float[1, 3, N, 4, 4] x, float[2, 1, M] z) => (float[1, 2, a, 2, 4] y, float[2, 1, 3] m)
          <int64[1] start = {-1}, int64[1] end = {2147483648}, int64[1] axis = {2}> {
          c = Conv <kernel_shape = [3, 3, 3], strides = [2, 2, 1], pads = [1, 1, 1, 1, 1, 1]> (x, w)
          y = LeakyRelu <alpha = 0.2> (c)
          s = Slice (z, start, end, axis) m = MatMul (s, q) }""",
        {"N": 3, "M": 4},
        {"N": 1, "M": 1},
        {"N": 6, "M": 7},
        weights={"w": weight(2, 3, 3, 3, 3), "q": weight(1, 3)},
    ),
]
