"""Whole ONNX models with control flow: branches, loops, scans, sequences and optionals, also nested."""

from __future__ import annotations

from tests.suites.programs.onnx_program import program

N123 = ({"N": 1}, {"N": 2}, {"N": 5})
ROUNDS = {"m": [0, 1, 4]}

CONTROL = [
    program(
        "loop_with_scan_output",
        """
        g (float[N, 3] x, int64 m) => (float[N, 3] last, float[r, N, 3] all) <bool yes = {1}, float half = {0.5}> {
          last, all = Loop (m, yes, x) <body = b (int64 i, bool c, float[N, 3] s) => (bool k, float[N, 3] t,
            float[N, 3] o)
            { k = Identity (c)  t = Mul (s, half)  o = Add (t, half) }>
        }""",
        *N123,
        given=ROUNDS,
    ),
    program(
        "loop_without_a_round",
        """
        g (float[N, 3] x) => (float[N, 3] last, float[r, N, 3] all) <bool yes = {1}, int64 m = {0}> {
          last, all = Loop (m, yes, x) <body = b (int64 i, bool c, float[N, 3] s) => (bool k, float[N, 3] t,
            float[N, 3] o)
            { k = Identity (c)  t = Add (s, s)  o = Mul (t, t) }>
        }""",
        *N123,
    ),
    program(
        "loop_whose_condition_starts_false",
        """
        g (float[N, 3] x, bool go) => (float[N, 3] last, float[r, N, 3] all, int64[r] which) <int64 m = {3}> {
          last, all, which = Loop (m, go, x)
            <body = b (int64 i, bool c, float[N, 3] s) => (bool k, float[N, 3] t, float[N, 3] o, int64 j)
            { k = Identity (c)  t = Add (s, s)  o = Mul (t, t)  j = Identity (i) }>
        }""",
        *N123,
        given={"go": [False, True, False]},
    ),
    program(
        "loop_until_a_condition",
        """
        g (float[N] x) => (float[N] last, int64 rounds)
        <int64 zero = {0}, int64 one = {1}, float limit = {50}, bool yes = {1}> {
          last, rounds = Loop ("", yes, x, zero)
            <body = b (int64 i, bool c, float[N] s, int64 n) => (bool k, float[N] t, int64 q)
            { t = Add (s, s)  q = Add (n, one)  a = Abs (t)  top = ReduceMax <keepdims = 0> (a)  k = Less (top,
              limit) }>
        }""",
        *N123,
    ),
    program(
        "loop_whose_state_grows",
        """
        g (float[N, 2] x, int64 m) => (float[L, 2] y) <bool yes = {1}> {
          y = Loop (m, yes, x) <body = b (int64 i, bool c, float[a, 2] s) => (bool k, float[d, 2] t)
            { k = Identity (c)  t = Concat <axis = 0> (s, x) }>
        }""",
        *N123,
        given=ROUNDS,
        refused={"tflite": "", "keras": ""},
    ),
    program(
        "loop_in_a_loop",
        """
        g (float[N, 2] x, int64 m) => (float[N, 2] y, float[p, N, 2] z) <bool yes = {1}, float half = {0.5}> {
          y, z = Loop (m, yes, x) <body = outer (int64 i, bool c, float[N, 2] s) => (bool k, float[N, 2] t, float[N,
            2] o)
            { k = Identity (c)
              t = Loop (i, yes, s) <body = inner (int64 j, bool d, float[N, 2] u) => (bool e, float[N, 2] v)
                { e = Identity (d)  w = Mul (u, half)  v = Add (w, x) }>
              o = Sub (t, s) }>
        }""",
        *N123,
        given=ROUNDS,
    ),
    program(
        "if_in_a_loop",
        """
        g (float[N, 2] x, int64 m) => (float[N, 2] y) <bool yes = {1}, int64 two = {2}, int64 zero = {0}> {
          y = Loop (m, yes, x) <body = b (int64 i, bool c, float[N, 2] s) => (bool k, float[N, 2] t)
            { k = Identity (c)  r = Mod (i, two)  even = Equal (r, zero)
              t = If (even) <then_branch = a () => (float[N, 2] p) { p = Add (s, x) },
                             else_branch = d () => (float[N, 2] q) { q = Mul (s, s) }> }>
        }""",
        *N123,
        given=ROUNDS,
    ),
    program(
        "branches_of_other_lengths",
        """
        g (float[N, 4] x, bool c) => (float[N, K] y) <int64[1] zero = {0}, int64[1] two = {2}, int64[1] one = {1}> {
          y = If (c) <then_branch = a () => (float[N, 4] p) { p = Neg (x) },
                      else_branch = d () => (float[N, 2] q) { q = Slice (x, zero, two, one) }>
        }""",
        *N123,
        given={"c": [True, False, True]},
    ),
    program(
        "branches_of_other_ranks",
        """
        g (float[N, 1, 4] x, bool c) => (float y) <int64[1] one = {1}> {
          h = If (c) <then_branch = a () => (float[N, 1, 4] p) { p = Neg (x) },
                      else_branch = d () => (float[N, 4] q) { q = Squeeze (x, one) }>
          y = ReduceSum <keepdims = 0> (h)
        }""",
        *N123,
        given={"c": [True, False, True]},
        refused={"tflite": "", "keras": "", "caffe2": ""},
    ),
    program(
        "if_with_names_used_twice",
        """
        g (float[N, 2] x, bool c) => (float[N, 2] y) {
          y = If (c) <then_branch = a () => (float[N, 2] p) { h = Neg (x)  p = Add (h, x) },
                      else_branch = d () => (float[N, 2] p) { h = Abs (x)  p = Mul (h, h) }>
        }""",
        *N123,
        given={"c": [True, False, True]},
    ),
    program(
        "if_of_three_outputs_one_unused",
        """
        g (float[N, 2] x, bool c) => (float[N, 2] y, int64[2] z) {
          y, unused, z = If (c)
            <then_branch = a () => (float[N, 2] p, float[N, 2] q, int64[2] r) { p = Neg (x)  q = Abs (x)  r = Shape
              (x) },
             else_branch = d () => (float[N, 2] s, float[N, 2] t, int64[2] u)
              { s = Exp (x)  t = Abs (x)  k = Shape (x)  u = Add (k, k) }>
        }""",
        *N123,
        given={"c": [True, False, True]},
    ),
    program(
        "condition_of_one_element",
        """
        g (float[N, 2] x, float[1] t) => (float[N, 2] y) <float[1] zero = {0}> {
          c = Greater (t, zero)
          y = If (c) <then_branch = a () => (float[N, 2] p) { p = Neg (x) },
                      else_branch = d () => (float[N, 2] q) { q = Identity (x) }>
        }""",
        *N123,
        given={"t": [[1.0], [-1.0], [2.0]]},
    ),
    program(
        "cumulative_scan",
        """
        g (float[T, 3] x, float[3] s) => (float[3] last, float[T, 3] all) {
          last, all = Scan <num_scan_inputs = 1, body = b (float[3] a, float[3] e) => (float[3] n, float[3] o)
            { n = Add (a, e)  o = Mul (n, e) }> (s, x)
        }""",
        {"T": 1},
        {"T": 2},
        {"T": 6},
    ),
    program(
        "scan_backwards_over_another_axis",
        """
        g (float[N, T, 3] x, float[N, 3] s) => (float[N, 3] last, float[N, 3, T] all) {
          last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                            scan_output_axes = [-1], scan_output_directions = [1],
                            body = b (float[N, 3] a, float[N, 3] e) => (float[N, 3] n, float[N, 3] o)
            { h = Tanh (a)  n = Add (h, e)  o = Sub (n, a) }> (s, x)
        }""",
        {"N": 1, "T": 1},
        {"N": 2, "T": 3},
        {"N": 3, "T": 1},
    ),
    program(
        "scan_of_two_inputs_without_state",
        """
        g (float[T, 3] x, float[T, 3] z) => (float[T] all) {
          all = Scan <num_scan_inputs = 2, body = b (float[3] a, float[3] e) => (float o)
            { h = Mul (a, e)  o = ReduceSum <keepdims = 0> (h) }> (x, z)
        }""",
        {"T": 1},
        {"T": 4},
    ),
    program(
        "scan_in_a_scan",
        """
        g (float[T, U] x, float[1] s) => (float[1] last, float[T, U, 1] all) {
          last, all = Scan <num_scan_inputs = 1, body = outer (float[1] a, float[U] row) => (float[1] n, float[U, 1]
            o)
            { n, o = Scan <num_scan_inputs = 1, body = inner (float[1] p, float e) => (float[1] q, float[1] r)
                { q = Add (p, e)  r = Mul (q, e) }> (a, row) }> (s, x)
        }""",
        {"T": 1, "U": 1},
        {"T": 2, "U": 3},
        {"T": 3, "U": 1},
    ),
    program(
        "scan_of_opset_8",
        """
        g (float[B, T, 3] x, float[B, 3] s) => (float[B, 3] last, float[B, T, 3] all) {
          last, all = Scan <num_scan_inputs = 1, body = b (float[3] a, float[3] e) => (float[3] n, float[3] o)
            { n = Add (a, e)  o = Mul (n, e) }> ("", s, x)
        }""",
        {"B": 1, "T": 2},
        {"B": 2, "T": 3},
        opset=8,
        ir_version=3,
    ),
    program(
        "sequence_of_parts",
        """
        g (float[N, 6] x) => (float[N, 6] y, int64 count) <int64 two = {2}, int64 at = {1}, int64 last = {-1}> {
          s = SplitToSequence <axis = 1> (x, two)
          e = SequenceAt (s, at)
          d = Neg (e)
          t = SequenceInsert (s, d, last)
          u = SequenceErase (t, at)
          count = SequenceLength (u)
          y = ConcatFromSequence <axis = 1> (u)
        }""",
        *N123,
    ),
    program(
        "sequence_filled_in_a_loop",
        """
        g (float[N, 2] x, int64 m) => (float[M, 2] y) <bool yes = {1}> {
          none = SequenceEmpty <dtype = 1> ()
          first = SequenceInsert (none, x)
          s = Loop (m, yes, first) <body = b (int64 i, bool c, seq(float[N, 2]) a) => (bool k, seq(float[N, 2]) t)
            { k = Identity (c)  f = CastLike (i, x)  e = Mul (x, f)  t = SequenceInsert (a, e) }>
          y = ConcatFromSequence <axis = 0> (s)
        }""",
        *N123,
        given=ROUNDS,
        refused={"tflite": "", "keras": "", "caffe2": ""},
    ),
    program(
        "sequence_mapped",
        """
        g (float[6, N] x) => (float[6, N] y) <int64 two = {2}> {
          s = SplitToSequence <axis = 0> (x, two)
          t = SequenceMap <body = b (float[K, N] a) => (float[K, N] o) { h = Exp (a)  o = Add (h, a) }> (s)
          y = ConcatFromSequence <axis = 0> (t)
        }""",
        *N123,
    ),
    program(
        "optional_tensor",
        """
        g (float[N, 2] x) => (float[N, 2] y, bool has) {
          o = Optional (x)
          has = OptionalHasElement (o)
          e = OptionalGetElement (o)
          y = Exp (e)
        }""",
        *N123,
    ),
    program(
        "body_reads_around_it_and_shadows_nothing",
        """
        g (float[N, 2] x, int64 m) => (float[N, 2] y, float[N, 2] z) <bool yes = {1}, float[2] w = {1.5, -2}> {
          h = Mul (x, w)
          y = Loop (m, yes, h) <body = b (int64 i, bool c, float[N, 2] s) => (bool k, float[N, 2] t)
            <float[2] w2 = {3, 4}> { k = Identity (c)  a = Add (s, h)  d = Mul (a, w2)  t = Tanh (d) }>
          z = Add (y, h)
        }""",
        *N123,
        given=ROUNDS,
    ),
    program(
        "states_that_change_places",
        """
        g (float[N] a, float[N] b, int64 m) => (float[N] p, float[N] q) <bool yes = {1}> {
          p, q = Loop (m, yes, a, b)
            <body = f (int64 i, bool c, float[N] s, float[N] t) => (bool k, float[N] u, float[N] v)
            { k = Identity (c)  u = Identity (t)  v = Add (s, t) }>
        }""",
        *N123,
        given=ROUNDS,
    ),
    program(
        "states_of_many_dtypes",
        """
        g (float[N] a, int64 m) => (float[N] p, int64 q, bool r, double s) <bool yes = {1}, int64 three = {3},
          double d = {0.1}> {
          p, q, r, s = Loop (m, yes, a, three, yes, d)
            <body = f (int64 i, bool c, float[N] x, int64 j, bool w, double e)
              => (bool k, float[N] u, int64 v, bool o, double z)
            { k = Identity (c)  u = Neg (x)  v = Add (j, i)  o = Not (w)  z = Add (e, d) }>
        }""",
        *N123,
        given=ROUNDS,
    ),
    program(
        "loop_over_the_rows",
        """
        g (float[N, 3] x) => (float[N, 3] y) <bool yes = {1}, int64 zero = {0}, int64[1] zeros = {0}> {
          dims = Shape (x)
          n = Gather (dims, zero)
          y = Loop (n, yes) <body = f (int64 i, bool c) => (bool k, float[3] o)
            { k = Identity (c)  r = Gather <axis = 0> (x, i)  o = Softmax <axis = 0> (r) }>
        }""",
        *N123,
    ),
    program(
        "empty_rows_through_a_loop",
        """
        g (float[N, 3] x, int64 m) => (float[N, 3] y, float[r, N, 3] z) <bool yes = {1}> {
          y, z = Loop (m, yes, x) <body = b (int64 i, bool c, float[N, 3] s) => (bool k, float[N, 3] t, float[N, 3] o)
            { k = Identity (c)  n = Neg (s)  t = Exp (n)  o = Identity (t) }>
        }""",
        {"N": 0},
        {"N": 0},
        {"N": 2},
        given=ROUNDS,
    ),
    program(
        "branch_that_is_a_constant",
        """
        g (float[N, 2] x, bool c) => (float[N, 2] y) <float[1] w = {7}> {
          h = If (c) <then_branch = a () => (float[1] p) { p = Constant <value = float[1] {3}> () },
                      else_branch = d () => (float[1] q) { q = Identity (w) }>
          y = Mul (x, h)
        }""",
        *N123,
        given={"c": [True, False, True]},
    ),
    program(
        "if_in_an_if",
        """
        g (float[N, 2] x, bool c, bool d) => (float[N, 2] y) {
          y = If (c) <then_branch = a () => (float[N, 2] p)
                { p = If (d) <then_branch = b () => (float[N, 2] q) { q = Exp (x) },
                              else_branch = e () => (float[N, 2] r) { r = Neg (x) }> },
              else_branch = f () => (float[N, 2] s) { s = Abs (x) }>
        }""",
        *N123,
        given={"c": [True, False, True], "d": [True, False, False]},
    ),
]
