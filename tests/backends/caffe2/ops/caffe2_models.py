"""Small models for cases that a single node cannot express: subgraphs, sequences, training steps, new opsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from tests.support.cases import f32


@dataclass(frozen=True)
class Model:
    """A model in ONNX's text form with inputs; `reason` marks a declared gap."""

    name: str
    text: str
    feeds: dict[str, np.ndarray]
    reason: str = ""

    @property
    def opset(self) -> int:
        """The opset of ONNX's own domain."""
        return next(i.version for i in self.proto.opset_import if not i.domain)

    @property
    def proto(self) -> onnx.ModelProto:
        return onnx.parser.parse_model(self.text)


def model(name: str, body: str, reason: str = "", opset: int = 21, **feeds: np.ndarray) -> Model:
    """Return the model; `body` is the graph after its name, in the syntax of onnx.parser."""
    return Model(name, f'<ir_version: 10, opset_import: ["" : {opset}]> g {body}', feeds, reason)


TRAINING = ', "ai.onnx.preview.training" : 1'
X, Y = f32(2, 3), f32(2, 3, low=5, high=6)
TRUE, FALSE = np.array(True), np.array(False)

_BRANCHES = """
    (bool c, float[n, 3] x) => (float[n, 3] y, float[a, 3] z) {
        y, z = If (c) <
            then_branch = t () => (ty, tz) {
                one = Constant <value = float {1.0}> ()
                ty = Add (x, one)
                tz = Identity (x)
            },
            else_branch = e () => (ey, ez) { ey = Neg (x) ez = Concat <axis = 0> (x, x) }
        >
    }"""

_NESTED = """
    (bool c, float[2, 3] x) => (float[2, 3] y) {
        s = If (c) <
            then_branch = t () => (ts) { tn = Neg (x) ts = SequenceConstruct (x, tn) },
            else_branch = e () => (es) { ee = Exp (x) es = SequenceConstruct (ee, x) }
        >
        i = Constant <value = int64 {1}> ()
        y = SequenceAt (s, i)
    }"""

_LOOP = """
    (%s float[2, 3] x) => (float[2, 3] y, float[k, 2, 3] rows) {
        %s
        y, rows = Loop (n, c, x) <body = b (int64 i, bool going, float[2, 3] v)
            => (bool more, float[2, 3] w, float[2, 3] row) {
            f = Cast <to = 1> (i)
            w = Add (v, f)
            row = Mul (w, v)
            %s
        }>
    }"""
_ON = "more = Identity (going)"
_SMALL = "t = ReduceMax <keepdims = 0> (w) limit = Constant <value = float {6.0}> () more = Less (t, limit)"
_STATIC = "n = Constant <value = int64 {4}> () c = Constant <value = bool {1}> ()"

_SWAP = """
    (int64 n, float[2, 3] x, float[2, 3] y) => (float[2, 3] p, float[2, 3] q) {
        c = Constant <value = bool {1}> ()
        p, q = Loop (n, c, x, y) <body = b (int64 i, bool going, float[2, 3] v, float[2, 3] w)
            => (bool more, float[2, 3] a, float[2, 3] e) {
            more = Identity (going)
            a = Identity (w)
            e = Identity (v)
        }>
    }"""

_SEQUENCE_LOOP = """
    (float[2, 3] x) => (float[8, 3] y) {
        n = Constant <value = int64 {4}> ()
        c = Constant <value = bool {1}> ()
        s = SequenceEmpty <dtype = 1> ()
        r = Loop (n, c, s) <body = b (int64 i, bool going, seq(float) v) => (bool more, seq(float) w) {
            more = Identity (going)
            f = Cast <to = 1> (i)
            e = Mul (x, f)
            w = SequenceInsert (v, e)
        }>
        y = ConcatFromSequence <axis = 0> (r)
    }"""

_SCAN = """
    (float[2] s, float[%s, 2] x) => (float[2] last, float[k, 2] rows) {
        last, rows = Scan <num_scan_inputs = 1, scan_input_directions = [%d],
            body = b (float[2] a, float[2] v) => (float[2] c, float[2] r) {
            c = Add (a, v)
            r = Mul (c, v)
        }> (s, x)
    }"""
_ACROSS = """
    (float[2] s, float[2, 5] x) => (float[2] last, float[2, 5] rows) {
        last, rows = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            scan_output_directions = [1],
            body = b (float[2] a, float[2] v) => (float[2] c, float[2] r) { c = Add (a, v) r = Mul (c, v) }> (s, x)
    }"""

_SEQUENCES = """
    (float[2, 3] x, float[2, 3] y) => (int64 n, float[2, 3] a, float[6, 3] j, float[2, 2, 3] t) {
        s = SequenceConstruct (x, y)
        one = Constant <value = int64 {-1}> ()
        z = Neg (x)
        longer = SequenceInsert (s, z, one)
        n = SequenceLength (longer)
        a = SequenceAt (longer, one)
        j = ConcatFromSequence <axis = 0> (longer)
        shorter = SequenceErase (longer, one)
        t = ConcatFromSequence <axis = 0, new_axis = 1> (shorter)
    }"""
_SPLIT = """
    (float[4, 3] x) => (float[4, 3] y, float[3] z) {
        two = Constant <value = int64 {3}> ()
        s = SplitToSequence <axis = 0> (x, two)
        m = SequenceMap (s) <body = b (float[n, 3] v) => (float[n, 3] w) { w = Neg (v) }>
        y = ConcatFromSequence <axis = 0> (m)
        r = SplitToSequence <axis = 0, keepdims = 0> (x)
        i = Constant <value = int64 {2}> ()
        z = SequenceAt (r, i)
    }"""
_OPTIONAL = """
    (float[2, 3] x) => (bool p, float[2, 3] y) {
        o = Optional (x)
        p = OptionalHasElement (o)
        y = OptionalGetElement (o)
    }"""

_OPTIMIZER = """
    (float r, int64 t, float[2, 3] x, float[2, 3] g, float[2, 3] v%s) => (float[2, 3] a, float[2, 3] b%s) {
        a, b%s = ai.onnx.preview.training.%s (r, t, x, g, v%s)
    }"""
STEP = {"r": np.float32(0.1), "x": X, "g": f32(2, 3, low=-1), "v": f32(2, 3, low=0.1)}
ONCE, LATER = np.array(0), np.array(3)

REGIONS = np.array([[0, 0, 0, 5, 5], [1, 1, 2, 6, 4]], np.float32)

MODELS = [
    *(
        model(
            f"GlobalLpPool {p}",
            f"(float[n, 4, h, w] x) => (float[n, 4, a, b] y) {{ y = GlobalLpPool <p = {p}> (x) }}",
            x=f32(2, 4, 5, 6),
        )
        for p in (1, 2, 3)
    ),
    model(
        "Resize of any number of pictures",
        "(float[n, 2, 3, 4] x) => (float[n, 2, 6, 5] y)"
        " { b = Shape <start = 0, end = 1> (x) s = Constant <value_ints = [2, 6, 5]> ()"
        ' z = Concat <axis = 0> (b, s) y = Resize <mode = "linear"> (x, , , z) }',
        x=f32(2, 2, 3, 4),
    ),
    model(
        "MaxRoiPool",
        "(float[n, 4, h, w] x, float[k, 5] r) => (float[k, 4, 2, 3] y)"
        " { y = MaxRoiPool <pooled_shape = [2, 3]> (x, r) }",
        x=f32(2, 4, 7, 8),
        r=REGIONS,
    ),
    model("If", _BRANCHES, c=TRUE, x=X),
    model("If else", _BRANCHES, c=FALSE, x=X),
    model("If of sequences", _NESTED, c=FALSE, x=X),
    model("Loop", _LOOP % ("", _STATIC, _ON), x=X),
    model(
        "Loop whose length is data", _LOOP % ("int64 n,", "c = Constant <value = bool {1}> ()", _ON), n=np.array(3), x=X
    ),
    model("Loop that ends early", _LOOP % ("", _STATIC, _SMALL), x=X),
    model("Loop over nothing", _LOOP % ("int64 n,", "c = Constant <value = bool {1}> ()", _ON), n=np.array(0), x=X),
    model("Loop that is not begun", _LOOP % ("bool c, int64 n,", "", _ON), c=FALSE, n=np.array(2), x=X),
    model("Loop that exchanges", _SWAP, n=np.array(3), x=X, y=Y),
    model("Loop over a sequence", _SEQUENCE_LOOP, x=X),
    model("Scan", _SCAN % ("5", 0), s=f32(2), x=f32(5, 2)),
    model("Scan backwards", _SCAN % ("5", 1), s=f32(2), x=f32(5, 2)),
    model("Scan of a length that is data", _SCAN % ("n", 0), s=f32(2), x=f32(5, 2)),
    model("Scan along other axes", _ACROSS, s=f32(2), x=f32(2, 5)),
    model("sequences", _SEQUENCES, x=X, y=Y),
    model("SplitToSequence", _SPLIT, x=f32(4, 3)),
    model("Optional", _OPTIONAL, x=X),
    model(
        "CumProd",
        "(float[2, 5] x) => (float[2, 5] y) { a = Constant <value = int64 {1}> () y = CumProd <reverse = 1> (x, a) }",
        opset=26,
        x=f32(2, 5),
    ),
    model(
        "TensorScatter",
        "(float[2, 3, 5, 2] p, float[2, 3, 2, 2] u, int64[2] i) => (float[2, 3, 5, 2] y)"
        ' { y = TensorScatter <mode = "circular"> (p, u, i) }',
        opset=24,
        p=f32(2, 3, 5, 2),
        u=f32(2, 3, 2, 2),
        i=np.array([1, 4]),
    ),
    model(
        "Attention of a padded cache",
        "(float[2, 2, 3, 8] q, float[2, 2, 6, 8] k, float[2, 2, 6, 8] v, int64[2] n)"
        " => (float[2, 2, 3, 8] y) { y = Attention <is_causal = 1> (q, k, v, , , , n) }",
        opset=24,
        q=f32(2, 2, 3, 8),
        k=f32(2, 2, 6, 8),
        v=f32(2, 2, 6, 8),
        n=np.array([6, 4]),
    ),
    Model(
        "FlexAttention",
        '<ir_version: 10, opset_import: ["" : 26, "ai.onnx.preview" : 1]> g'
        " (float[2, 2, 3, 4] q, float[2, 2, 5, 4] k, float[2, 2, 5, 4] v) => (float[2, 2, 3, 4] y)"
        " { y = ai.onnx.preview.FlexAttention <score_mod = s (float[2, 2, 3, 5] a) => (float[2, 2, 3, 5] b)"
        " { b = Tanh (a) }> (q, k, v) }",
        {"q": f32(2, 2, 3, 4), "k": f32(2, 2, 5, 4), "v": f32(2, 2, 5, 4)},
    ),
    Model(
        "classic",
        '<ir_version: 10, opset_import: ["" : 22, "ai.onnx.ml" : 5]> g (float[2, 3] x, int64[2] i)'
        " => (float[2, 2] y, float[2, 3] z) { y = ai.onnx.ml.ArrayFeatureExtractor (x, i)"
        " z = ai.onnx.ml.Binarizer <threshold = 0.5> (x) }",
        {"x": X, "i": np.array([2, 0])},
    ),
    model(
        "MelWeightMatrix",
        "() => (float[9, 8] y) { b = Constant <value = int64 {8}> () d = Constant <value = int64 {16}> ()"
        " s = Constant <value = int64 {8192}> () l = Constant <value = float {0.0}> ()"
        " u = Constant <value = float {4096.0}> ()"
        " y = MelWeightMatrix (b, d, s, l, u) }",
    ),
    *(
        Model(
            f"{name} {when}",
            f'<ir_version: 10, opset_import: ["" : 23{TRAINING}]> g '
            + _OPTIMIZER
            % (
                (", float[2, 3] h", ", float[2, 3] d", ", d", name, ", h")
                if name.startswith("Adam")
                else ("", "", "", name, "")
            ),
            {**STEP, "t": t, **({"h": f32(2, 3, low=0.2)} if name.startswith("Adam") else {})},
        )
        for name in (
            "Adagrad <norm_coefficient = 0.01, decay_factor = 0.1>",
            "Adam <norm_coefficient = 0.01, alpha = 0.95, beta = 0.9>",
            'Momentum <alpha = 0.9, beta = 0.7, norm_coefficient = 0.01, mode = "standard">',
            'Momentum <alpha = 0.9, beta = 0.7, norm_coefficient = 0.01, mode = "nesterov">',
        )
        for when, t in (("first", ONCE), ("later", LATER))
    ),
]


def _operators(graph: onnx.GraphProto) -> set[str]:
    """Yield the operators of a graph and its subgraphs, by their names in the rule table."""
    found = {f"{n.domain}::{n.op_type}" if n.domain else n.op_type for n in graph.node}
    return found.union(*(_operators(a.g) for n in graph.node for a in n.attribute if a.HasField("g")))


RANDOM = """
    (float[n, 4] x) => (float[100, 50] u, float[100, 50] g, float[n, 4] v, float[n, 4] h, int32[n, 500] m,
                        float[n, 4] b, float[n, 4] d) {
        u = RandomUniform <low = 2.0, high = 5.0, shape = [100, 50]> ()
        g = RandomNormal <mean = 3.0, scale = 0.5, shape = [100, 50]> ()
        v = RandomUniformLike (x)
        h = RandomNormalLike (x)
        m = Multinomial <sample_size = 500> (x)
        p = Sigmoid (x)
        b = Bernoulli (p)
        r = Constant <value = float {0.25}> ()
        t = Constant <value = bool {1}> ()
        d = Dropout (x, r, t)
    }"""
"""Random numbers, which are compared by their distribution."""

MODELLED = set[str]().union(*(_operators(m.proto.graph) for m in (*MODELS, model("random", RANDOM))))
"""The operators of these models."""
