"""Cases of the PyTorch frontend's rules on several operands, element by element."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.cases import boolean, case, f32, f64, i32, i64

P = np.abs(f32(2, 3)) + 0.1
ODD = np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan], dtype=np.float32)
ONE, TWO, SEVEN = np.array(1), np.array(2), np.array(7)

PAIRS = (
    "add",
    "sub",
    "subtract",
    "mul",
    "multiply",
    "div",
    "divide",
    "true_divide",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "max.other",
    "min.other",
    "lt",
    "le",
    "gt",
    "ge",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "eq",
    "ne",
    "not_equal",
    "atan2",
    "arctan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "copysign",
    "remainder",
    "fmod",
    "floor_divide",
    "isclose",
    "logical_or",
    "logical_xor",
    "logical_and",
    "rsub",
)

BINARY = [
    *(case(name, f32(2, 3), f32(3, low=-3.0)) for name in PAIRS),
    *(
        case(name, i64(2, 3), i64(3, low=1)).named("int")
        for name in PAIRS
        if name not in ("hypot", "logaddexp", "logaddexp2")
    ),
    *(
        case(name, i64(2, 3), f32(3)).named("mixed")
        for name in (
            "add",
            "sub",
            "mul",
            "div",
            "maximum",
            "lt",
            "eq",
            "atan2",
            "copysign",
            "remainder",
            "floor_divide",
            "logical_or",
        )
    ),
    *(
        case(name, boolean(2, 3), boolean(3)).named("bool")
        for name in (
            "add",
            "mul",
            "maximum",
            "minimum",
            "lt",
            "eq",
            "ne",
            "logical_and",
            "logical_or",
            "logical_xor",
            "div",
        )
    ),
    *(
        case(name, f32(2, 3), 2).named("number")
        for name in ("add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "lt", "eq", "rsub")
    ),
    *(
        case(name, i64(2, 3), 2.5).named("widening number")
        for name in ("add", "sub", "mul", "div", "lt", "eq", "remainder")
    ),
    *(case(name, i32(2, 3), np.array(3)).named("0-d") for name in ("add", "mul", "floor_divide", "lt")),
    *(case(name, f32(2, 3), np.array(2.5)).named("0-d double") for name in ("add", "mul", "div", "lt")),
    case("add", f32(2, 3), f32(2, 3), alpha=2).named("alpha"),
    case("sub", f32(2, 3), f32(2, 3), alpha=0.5).named("alpha"),
    case("rsub", f32(2, 3), f32(3), alpha=2).named("alpha"),
    case("div", f32(2, 3), f32(3, low=0.5), rounding_mode="floor").named("floor"),
    case("div", f32(2, 3), f32(3, low=0.5), rounding_mode="trunc").named("trunc"),
    case("div", i64(2, 3), i64(3, low=1), rounding_mode="trunc").named("int trunc"),
    case("div", i64(2, 3), i64(3, low=-4, high=0), rounding_mode="floor").named("int floor"),
    case("floor_divide", f32(2, 3), np.array([0.0, -0.5, 0.3], dtype=np.float32)).named("by zero"),
    case("remainder", i64(2, 3), i64(3, low=-4, high=0)).named("negative"),
    case("fmod", i64(2, 3), i64(3, low=-4, high=0)).named("negative"),
    case(
        "atan2",
        np.array([0.0, -0.0, 1.0, -1.0, 0.0, -0.0, 2.0], dtype=np.float32),
        np.array([0.0, 0.0, 0.0, 0.0, -1.0, -1.0, -3.0], dtype=np.float32),
    ).named("axes"),
    case("fmax", ODD, np.zeros(7, np.float32)).named("odd"),
    case("fmin", ODD, np.zeros(7, np.float32)).named("odd"),
    case("pow", P, f32(3)),
    case("pow", f32(2, 3), 2).named("square"),
    case("pow", i64(2, 3), 2).named("int"),
    case("pow", 2, f32(3)).named("base"),
    case("float_power", P, 2),
    case("xlogy", f32(2, 3), P),
    case("special_xlogy", f32(2, 3), P),
    case("xlogy", np.array([0.0, 0.0, 1.0], np.float32), np.array([0.0, np.nan, 0.5], np.float32)).named("zero"),
    case("heaviside", np.array([-1.0, 0.0, 2.0], np.float32), np.full(3, 0.5, np.float32)),
    *(
        case(name, i64(2, 3), i64(3))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__")
    ),
    *(case(name, boolean(2, 3), boolean(3)).named("bool") for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(
        case(name, i64(2, 3), i64(3, low=0, high=4))
        for name in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__")
    ),
    case("isclose", f32(2, 3), f32(2, 3) + np.float32(1e-9)).named("near"),
    case("isclose", ODD, ODD, equal_nan=True).named("odd"),
    case("floordiv", SEVEN, TWO),
    case("sym_truediv", SEVEN, TWO),
    case("sym_max", SEVEN, 9),
    case("sym_min", SEVEN, 9),
    case("sym_float", SEVEN),
    case("sym_int", np.array(2.7)),
    case("sym_not", np.array(True)),
    case("sym_ite", np.array(True), SEVEN, TWO),
]

CHOOSE = [
    case("clamp", f32(2, 3), -1, 0.5),
    case("clamp", f32(2, 3), None, 0.5).named("above"),
    case("clamp", f32(2, 3), f32(3, high=0.0), f32(2, 1, low=0.0)).named("tensors"),
    case("clamp", i64(2, 3), 0.5, 2.5).named("widening"),
    case("clip", f32(2, 3), -1, 0.5),
    case("clamp", i64(2, 3), -1, 2).named("int"),
    case("clamp_min", f32(2, 3), 0.5),
    case("clamp_max", f32(2, 3), 0.5),
    case("where", boolean(2, 3), f32(2, 3), f32(3)),
    case("where", boolean(2, 3), f32(2, 3), 0).named("number"),
    case("where", boolean(2, 3), i64(2, 3), f32(3)).named("mixed"),
    case("masked_fill", f32(2, 3), boolean(3), -np.inf),
    case("masked_fill", i64(2, 3), boolean(2, 3), 7).named("int"),
    case("addcmul", f32(2, 3), f32(3), f32(2, 1)),
    case("addcmul", f32(2, 3), f32(3), f32(2, 1), value=0.5).named("value"),
    case("addcdiv", f32(2, 3), f32(3), P, value=2),
    case("lerp", f32(2, 3), f32(2, 3, low=0.0), 0.3),
    case("lerp", f32(2, 3), f32(2, 3, low=0.0), f32(2, 3, low=0.0, high=1.0)).named("tensor"),
    case("to", i64(2, 3), dtype=torch.float32),
    case("to.dtype", f32(2, 3), torch.int64),
    case("to.dtype", ODD[1:5], torch.bool).named("bool"),
    case("to.dtype_layout", f32(2, 3), dtype=torch.float64),
    case("to.device", f32(2, 3), torch.device("cpu"), torch.float64),
    case("to.other", i64(2, 3), f32(1)).named("other"),
    case("_to_copy", f32(2, 3), dtype=torch.int32),
    case("type_as", i64(2, 3), f32(1)),
    case("_cast_Float", i64(2, 3)),
    case("_cast_Double", f32(2, 3)),
    case("_cast_Int", f32(2, 3)),
    case("_cast_Long", f32(2, 3)),
    case("scalar_tensor", 2.5),
    case("scalar_tensor", 3, dtype=torch.int64).named("int"),
    case("item", f64(1)),
    case("item", i64(1)).named("int"),
    case("_local_scalar_dense", f64(1)),
]
