"""Whole ONNX models without control flow: functions, old opsets, empty tensors, dims of one, names, quantization."""

from __future__ import annotations

import numpy as np

from tests.suites.programs.onnx_program import program, weight

R = np.random.default_rng(7)
N123 = ({"N": 1}, {"N": 2}, {"N": 5})
WITH_NONE = ({"N": 0}, {"N": 1}, {"N": 3})

VALUES = [
    program(
        "function_with_an_attribute_default",
        "g (float[N, 4] x) => (float[N, 4] y) { h = local.f (x)  y = local.f <alpha = 0.05> (h) }",
        *N123,
        functions='<opset_import: ["" : 20], domain: "local"> f <alpha: float = 0.3> (x) => (y)'
        " { y = LeakyRelu <alpha: float = @alpha> (x) }",
    ),
    program(
        "function_in_a_function",
        "g (float[N, 4] x) => (float[N, 4] y) { y = local.outer <scale = 2.0> (x) }",
        *N123,
        functions="""
        <opset_import: ["" : 20, "local" : 1], domain: "local"> outer <scale: float = 3.0> (x) => (y)
          { h = local.inner <by: float = @scale> (x)  t = local.inner (x)  y = Add (h, t) }
        <opset_import: ["" : 20], domain: "local"> inner <by: float = 5.0> (x) => (y)
          { c = Constant <value_float: float = @by> ()  d = CastLike (c, x)  y = Mul (x, d) }""",
    ),
    program(
        "function_with_a_branch_and_an_absent_input",
        "g (float[N, 4] x, bool c) => (float[N, 4] y) { h = local.f (x, c)  y = local.clip (h) }",
        *N123,
        functions="""
        <opset_import: ["" : 20], domain: "local"> f (x, c) => (y) {
          y = If (c) <then_branch = a () => (p) { p = Neg (x) }, else_branch = b () => (q) { q = Exp (x) }> }
        <opset_import: ["" : 20], domain: "local"> clip (x, top) => (y) { z = Identity (x)  y = Clip (z, "", top)
          }""",
    ),
    program(
        "function_of_another_opset",
        "g (float[N, 4] x) => (float[N, 1] y) { h = local.f (x)  y = Sqrt (h) }",
        *N123,
        functions='<opset_import: ["" : 19], domain: "local"> f (x) => (y)'
        " { a = Constant <value_ints = [1]> ()  s = Mul (x, x)  y = ReduceSum <keepdims = 1> (s, a) }",
    ),
    program(
        "function_used_at_two_shapes",
        "g (float[N, 4] x, float[N, 2] z) => (float[N, 4] y, float[N, 2] w) { y = local.f (x)  w = local.f (z) }",
        *N123,
        functions='<opset_import: ["" : 20], domain: "local"> f (x) => (y)'
        " { minus = Constant <value_ints = [-1]> ()  d = Shape (x)  f = Reshape (x, minus)  r = Reshape (f, d)"
        "  y = Softmax (r) }",
    ),
    program(
        "initializer_that_is_an_input",
        "g (float[N, 3] x, float[3] b = {1, 2, 3}) => (float[N, 3] y) { y = Add (x, b) }",
        *N123,
        opset=8,
        ir_version=3,
    ),
    program(
        "input_that_is_an_output",
        "g (float[N, 3] x) => (float[N, 3] y, float[N, 3] z) { y = Identity (x) z = Identity (y) }",
        *N123,
    ),
    program(
        "output_that_is_a_weight",
        "g (float[N, 3] x) => (float[N, 3] y, float[2] w) <float[2] v = {1, 2}> { y = Neg (x) w = Identity (v) }",
        *N123,
    ),
    program("unused_input", "g (float[N, 3] x, int64[N] unused) => (float[N, 3] y) { y = Neg (x) }", *N123),
    program(
        "unused_outputs_in_the_middle",
        "g (float[N, 6] x) => (float[N, 2] y, float[N, 6] v) <int64[1] six = {6}>"
        " { a, y, c = Split <axis = 1, num_outputs = 3> (x) v, i = TopK <axis = 1> (x, six) }",
        *N123,
    ),
    program(
        "names_that_no_framework_likes",
        """g (float[N, 3] x, float[N, 3] x_1) => (float[N, 3] y, float[N, 3] y_1)
        { y = Sub (x, x_1) y_1 = Add (y, x) }""",
        *N123,
    ),
    program("scalars", "g (float x, float z) => (float y) { h = Mul (x, z) y = Tanh (h) }", {}, {}),
    program(
        "empty_batch_through_a_network",
        """
        g (float[N, 3, 8, 8] x) => (float[N, 5] y) {
          h = Conv <pads = [1, 1, 1, 1]> (x, w, b)  r = Relu (h)  p = GlobalAveragePool (r)  f = Flatten (p)
          l = Gemm <transB = 1> (f, v, c)  y = Softmax (l) }""",
        *WITH_NONE,
        weights={"w": weight(4, 3, 3, 3), "b": weight(4), "v": weight(5, 4), "c": weight(5)},
    ),
    program(
        "empty_batch_through_pools",
        """
        g (float[N, 3, 8, 8] x) => (float[N, 3, 4, 4] y, float[N, 3, 4, 4] z) {
          y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
          z = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x) }""",
        *WITH_NONE,
    ),
    program(
        "empty_batch_through_an_lstm",
        """
        g (float[T, N, 3] x) => (float[T, 1, N, 4] y, float[1, N, 4] h) {
          y, h, c = LSTM <hidden_size = 4> (x, w, r) }""",
        {"T": 2, "N": 1},
        {"T": 3, "N": 2},
        {"T": 1, "N": 3},
        weights={"w": weight(1, 16, 3), "r": weight(1, 16, 4)},
    ),
    program(
        "reductions_of_nothing",
        """
        g (float[N, K] x) => (float[N] s, float[N] p, float[N] q) <int64[1] one = {1}> {
          s = ReduceSum <keepdims = 0> (x, one)  p = ReduceProd <keepdims = 0> (x, one)  q = ReduceL2 <keepdims = 0>
            (x, one) }""",
        {"N": 2, "K": 0},
        {"N": 0, "K": 3},
        {"N": 2, "K": 3},
    ),
    program(
        "concatenation_with_nothing",
        """
        g (float[N, 3] x, float[K, 3] z) => (float[M, 3] y) { y = Concat <axis = 0> (x, z) }""",
        {"N": 0, "K": 2},
        {"N": 2, "K": 0},
        {"N": 0, "K": 0},
        {"N": 1, "K": 3},
    ),
    program(
        "slices_that_are_empty",
        """
        g (float[N, 6] x) => (float[N, k] a, float[N, l] b, float[m, 6] c)
        <int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i9 = {9}, int64[1] back = {-1}> {
          a = Slice (x, i0, i0, i1)  b = Slice (x, i2, i1, i1)  c = Slice (x, i9, i9, i0) }""",
        *N123,
    ),
    program(
        "slices_backwards",
        """
        g (float[N, 6] x) => (float[N, k] a, float[N, l] b, float[m, 3] c)
        <int64[1] start = {-1}, int64[1] end = {-9223372036854775807}, int64[1] i1 = {1}, int64[1] by = {-2},
         int64[2] s2 = {3, 5}, int64[2] e2 = {-100, 2}, int64[2] ax = {0, 1}, int64[2] st = {-1, -1}> {
          a = Slice (x, start, end, i1, by)  b = Slice (x, i1, start, i1)  c = Slice (x, s2, e2, ax, st) }""",
        *N123,
    ),
    program(
        "slices_of_computed_ends",
        """
        g (float[N, M] x, int64[1] s, int64[1] e) => (float[N, k] a) <int64[1] i1 = {1}> { a = Slice (x, s, e, i1)
          }""",
        {"N": 2, "M": 5},
        {"N": 1, "M": 3},
        {"N": 3, "M": 4},
        {"N": 2, "M": 4},
        given={"s": [[0], [1], [-2], [3]], "e": [[0], [100], [-1], [1]]},
    ),
    program(
        "broadcasts_of_ones",
        """
        g (float[N, 1, M] x, float[K, 1] z, float[1] o) => (float[N, K, M] y) { h = Add (x, z) y = Mul (h, o) }""",
        {"N": 1, "M": 1, "K": 1},
        {"N": 2, "M": 3, "K": 1},
        {"N": 1, "M": 1, "K": 4},
        {"N": 3, "M": 2, "K": 5},
    ),
    program(
        "dims_that_turn_out_one",
        """
        g (float[N, M] x, float[K, M] z) => (float[N, M] y) <int64[2] e = {1, 1}> { h = Expand (z, e) y = Add (x, h)
          }""",
        {"N": 3, "M": 2, "K": 1},
        {"N": 2, "M": 4, "K": 2},
        {"N": 1, "M": 1, "K": 1},
    ),
    program(
        "matmuls_of_all_ranks",
        """
        g (float[N, 1, 4, 3] x) => (float[N, 1, 4, 5] a, float[N, 2, 4, 5] b, float[N, 1, 4] c, float[N, 1, 4, 5] d,
          float[N, 1, 4, 5] e) {
          a0 = MatMul (x, w2)  a = Add (a0, bias)  b0 = MatMul (x, w3)  b = Add (b0, bias)  c = MatMul (x, w1)
          d0 = MatMul (x, w4) d = Relu (d0)  e0 = MatMul (x, w5)  e = Add (e0, bias) }""",
        {"N": 1},
        {"N": 3},
        {"N": 0},
        weights={
            "w1": weight(3),
            "w2": weight(3, 5),
            "w3": weight(2, 3, 5),
            "w4": weight(1, 3, 5),
            "w5": weight(1, 1, 3, 5),
            "bias": weight(5),
        },
    ),
    program(
        "matmul_whose_front_dims_turn_out_one",
        """
        g (float[B, 1, M, 3] x, float[A, C, 3, 5] w) => (float[b, c, m, 5] y) { y = MatMul (x, w) }""",
        {"B": 3, "M": 4, "A": 1, "C": 1},
        {"B": 3, "M": 4, "A": 3, "C": 1},
        {"B": 2, "M": 1, "A": 1, "C": 2},
        {"B": 1, "M": 7, "A": 1, "C": 1},
    ),
    program(
        "gemm_of_a_reshape_of_unknown_rank",
        """
        g (float[N, 4] x, int64[K] dims) => (float[a, 3] y) { h = Reshape (x, dims) f = Flatten <axis = 1> (h) y =
          Gemm (f, w, b) }""",
        {"N": 2, "K": 2},
        {"N": 3, "K": 3},
        given={"dims": [[2, 4], [3, 2, 2]]},
        weights={"w": weight(4, 3), "b": weight(3)},
    ),
    program(
        "old_softmax",
        "g (float[N, 3, 4] x) => (float[N, 3, 4] y) { y = Softmax <axis = 1> (x) }",
        *N123,
        opset=11,
        ir_version=6,
    ),
    program(
        "old_clip_and_dropout",
        "g (float[N, 3] x) => (float[N, 3] y) { h = Clip <max = 0.5, min = -0.5> (x) y, m = Dropout <ratio = 0.3> "
        "(h) }",
        *N123,
        opset=7,
        ir_version=3,
    ),
    program(
        "old_upsample",
        "g (float[N, 2, 3, 3] x) => (float[N, 2, 6, 7] y) <float[4] s = {1, 1, 2, 2.5}>"
        ' { y = Upsample <mode = "linear"> (x, s) }',
        *N123,
        opset=9,
        ir_version=3,
    ),
    program(
        "old_pad_and_slice",
        'g (float[N, 3] x) => (float[N, 3] y) { h = Pad <pads = [0, 1, 0, 2], value = 3.0, mode = "constant"> (x)'
        " y = Slice <axes = [1], starts = [0], ends = [3]> (h) }",
        *N123,
        opset=9,
        ir_version=3,
    ),
    program(
        "old_batch_norm",
        "g (float[N, 3, 2] x) => (float[N, 3, 2] y) { y = BatchNormalization <epsilon = 0.01> (x, s, b, m, v) }",
        *N123,
        opset=7,
        ir_version=3,
        weights={"s": weight(3), "b": weight(3), "m": weight(3), "v": np.abs(weight(3)) + 0.5},
    ),
    program(
        "quantized_layer",
        """
        g (float[N, 4] x) => (float[N, 3] y) <float s = {0.02}, uint8 z = {128}, float ws = {0.01}, int8 wz = {0},
          float ys = {0.05}, uint8 yz = {100}> {
          q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) w = DequantizeLinear (wq, ws, wz)
          h = MatMul (d, w) r = QuantizeLinear (h, ys, yz) y = DequantizeLinear (r, ys, yz) }""",
        *WITH_NONE,
        weights={"wq": R.integers(-128, 128, (4, 3)).astype(np.int8)},
    ),
    program(
        "quantized_convolution_per_channel",
        """
        g (float[N, 2, 5, 5] x) => (float[N, 3, 5, 5] y) <float s = {0.03}, int8 z = {3}> {
          q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) w = DequantizeLinear <axis = 0> (wq, ws, wz)
          y = Conv <pads = [1, 1, 1, 1]> (d, w, b) }""",
        *N123,
        weights={
            "wq": R.integers(-128, 128, (3, 2, 3, 3)).astype(np.int8),
            "ws": np.array([0.01, 0.02, 0.03], np.float32),
            "wz": np.zeros(3, np.int8),
            "b": weight(3),
        },
    ),
    program(
        "dynamic_quantization",
        """
        g (float[N, 4] x) => (uint8[N, 4] q, float s, uint8 z, int32[N, 3] p) {
          q, s, z = DynamicQuantizeLinear (x) p = MatMulInteger (q, w, z) }""",
        *N123,
        weights={"w": R.integers(-128, 128, (4, 3)).astype(np.int8)},
    ),
    program(
        "gather_with_negative_indices",
        """
        g (float[N, 5] x, int64[K] i) => (float[N, K] y, float[N, K] z) { y = Gather <axis = 1> (x, i)
          s = Shape <end = 1> (x) k = Shape (i) d = Concat <axis = 0> (s, k) e = Expand (i, d) z = GatherElements
            <axis = 1> (x, e) }""",
        {"N": 1, "K": 1},
        {"N": 2, "K": 3},
        {"N": 3, "K": 0},
        given={"i": [[-1], [0, -5, 4], []]},
    ),
    program(
        "scatter_with_duplicates",
        """
        g (float[N, 3] x, int64[K, 1] i, float[K, 3] u) => (float[N, 3] y, float[N, 3] z) {
          y = ScatterND <reduction = "add"> (x, i, u)  z = ScatterND <reduction = "max"> (x, i, u) }""",
        {"N": 4, "K": 3},
        {"N": 2, "K": 1},
        {"N": 3, "K": 0},
        given={"i": [[[1], [1], [-1]], [[0]], np.zeros((0, 1))]},
    ),
    program(
        "where_of_broadcast_conditions",
        """
        g (float[N, 3] x, bool[3] c, float z) => (float[N, 3] y) { y = Where (c, x, z) }""",
        *WITH_NONE,
    ),
    program(
        "nonzero_and_compress",
        """
        g (float[N, 4] x, bool[4] c) => (int64[2, k] i, float[N, l] y) <float zero = {0}> { p = Greater (x, zero) i
          = NonZero (p) y = Compress <axis = 1> (x, c) }""",
        *WITH_NONE,
    ),
    program(
        "unique_sorted_and_not",
        """
        g (int64[N] x) => (int64[k] a, int64[l] b, int64[k] c, int64[N] d, int64[m] e) { a, i, d, c = Unique (x) b,
          e = Unique <sorted = 0> (x) }""",
        {"N": 1},
        {"N": 6},
        {"N": 9},
    ),
    program(
        "reshape_with_zero_and_minus_one",
        """
        g (float[N, 3, 4] x) => (float[N, 12] a, float[k, 4] b, float[N, 3, 2, 2] c) <int64[2] p = {0, -1}, int64[2]
          q = {-1, 4}, int64[4] r = {0, 0, 2, -1}> {
          a = Reshape (x, p) b = Reshape (x, q) c = Reshape (x, r) }""",
        *N123,
    ),
    program(
        "reshape_with_allowzero",
        """
        g (float[N, 0, 3] x) => (float[3, 0] y) <int64[2] p = {3, 0}> { y = Reshape <allowzero = 1> (x, p) }""",
        *N123,
    ),
    program(
        "shape_arithmetic",
        """
        g (float[N, 4, M] x) => (float[k, 2, l] y) <int64[1] two = {2}, int64[1] i0 = {0}, int64[1] i2 = {2},
          int64[1] i3 = {3}> {
          d = Shape (x) n = Slice (d, i0, two) m = Slice (d, i2, i3) c = ReduceProd (n) h = Div (c, two) s = Concat
            <axis = 0> (h, two, m) y = Reshape (x, s) }""",
        {"N": 1, "M": 1},
        {"N": 2, "M": 3},
        {"N": 0, "M": 2},
    ),
    program(
        "cast_chain",
        """
        g (float[N] x) => (float[N] y, int32[N] i, bool[N] b, double[N] d) { i = Cast <to = 6> (x) b = Cast <to = 9>
          (x) h = Cast <to = 10> (x) d = Cast <to = 11> (h) y = Cast <to = 1> (i) }""",
        *N123,
    ),
    program(
        "integer_division_and_mod",
        """
        g (int64[N] x, int64[N] z) => (int64[N] a, int64[N] b, int64[N] c) { a = Div (x, z) b = Mod (x, z) c = Mod
          <fmod = 1> (x, z) }""",
        {"N": 4},
        given={"x": [[-7, 7, -7, 7]], "z": [[2, -2, -2, 2]]},
    ),
    program(
        "strings",
        """
        g (string[N] x, string[N] z) => (string[N] y, bool[N] e) { y = StringConcat (x, z) e = Equal (x, z) }""",
        *N123,
    ),
    program(
        "one_hot_and_argmax",
        """
        g (float[N, 5] x) => (float[N, 7] y, int64[N] a, int64[N] l) <int64 seven = {7}, float[2] on = {0, 2}> {
          a = ArgMax <axis = 1, keepdims = 0> (x) y = OneHot (a, seven, on) l = ArgMin <axis = -1, keepdims = 0,
            select_last_index = 1> (x) }""",
        *WITH_NONE,
    ),
    program(
        "einsum_of_three",
        """
        g (float[N, 2, 3] x, float[N, 3, 4] z) => (float[N, 2, 5] y) { y = Einsum <equation = "nij,njk,kl->nil"> (x,
          z, w) }""",
        *N123,
        weights={"w": weight(4, 5)},
    ),
    program(
        "cumulative_sums",
        """
        g (float[N, 5] x) => (float[N, 5] a, float[N, 5] b) <int32 one = {1}, int64 zero = {0}> { a = CumSum
          <exclusive = 1, reverse = 1> (x, one) b = CumSum (x, zero) }""",
        *WITH_NONE,
    ),
]
