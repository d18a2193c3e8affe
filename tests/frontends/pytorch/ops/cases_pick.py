"""Cases of the PyTorch frontend's rules that reduce, sort, read and write by index."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.cases import boolean, case, f32, i32, i64

SCALAR = np.array(1.5, dtype=np.float32)
IDS = np.array([[0, 2], [1, 1]])

REDUCE = [
    *(
        case(name, f32(2, 3, 4))
        for name in (
            "sum",
            "nansum",
            "prod",
            "mean",
            "amax",
            "amin",
            "max",
            "min",
            "all",
            "any",
            "count_nonzero",
            "argmax",
            "argmin",
            "linalg_vector_norm",
            "aminmax",
        )
    ),
    *(case(name, i64(2, 3)).named("int") for name in ("sum", "prod", "max", "min", "all", "any", "argmax", "amax")),
    *(case(name, boolean(2, 3)).named("bool") for name in ("sum", "amax", "max", "all", "any", "count_nonzero")),
    *(
        case(name, f32(2, 3, 4), [0, -1]).named("dims")
        for name in ("mean", "sum", "amax", "amin", "var", "std", "logsumexp")
    ),
    *(case(name, f32(2, 3, 4), [1], True).named("keep") for name in ("mean", "sum", "amax", "logsumexp")),
    *(case(name, f32(2, 3, 4), 1) for name in ("max.dim", "min.dim")),
    *(
        case(name, f32(2, 3, 4), 1, True).named("keep")
        for name in ("max.dim", "min.dim", "argmax", "argmin", "prod.dim_int")
    ),
    case("prod.dim_int", f32(2, 3), 1),
    case("sum", f32(2, 3), dtype=torch.float64).named("dtype"),
    case("sum", SCALAR).named("scalar"),
    case("mean", i64(2, 3), dtype=torch.float32).named("dtype"),
    case("argmax", f32(2, 3), None, True).named("all kept"),
    case("all.dim", boolean(2, 3), 1).named("dim"),
    case("any.dims", boolean(2, 3), [0, 1]).named("dims"),
    case("count_nonzero", i64(2, 3), 0).named("dim"),
    case("logsumexp", f32(2, 3), [1]),
    case("special_logsumexp", f32(2, 3), [1]),
    case("aminmax", f32(2, 3), dim=1).named("dim"),
    case("var.default", f32(2, 3)),
    case("var.default", f32(2, 3), False).named("biased"),
    case("std.default", f32(2, 3), False),
    case("var_mean.default", f32(2, 3)),
    case("std_mean.default", f32(2, 3), False),
    case("var", f32(2, 3), [1], correction=0).named("correction"),
    case("std", f32(2, 3), [1], correction=2, keepdim=True).named("kept"),
    case("var_mean", f32(2, 3), [1], correction=0).named("dims"),
    case("std_mean", f32(2, 3), [1], correction=1, keepdim=True).named("kept"),
    *(case("linalg_vector_norm", f32(2, 3), order, [1]).named(f"{order}") for order in (1, 2, 3, 0, np.inf, -np.inf)),
    case("norm", f32(2, 3)),
    case("norm", f32(2, 3), 1, [1]).named("dim"),
    case("frobenius_norm", f32(2, 3), [0, 1]),
    case("cumsum", f32(2, 3), 1),
    case("cumsum", i32(2, 3), -1).named("int"),
    case("topk", f32(3, 5), 2),
    case("topk", f32(3, 5), 2, 0, False).named("smallest"),
    case("sort", f32(3, 5)),
    case("sort", f32(3, 5), 0, True).named("down"),
    case("sort.stable", i64(8), stable=True),
    case("argsort", f32(3, 5), 1),
    case("argsort.stable", i64(8), stable=True),
    case("msort", f32(3, 2)),
]

INDEX = [
    case("index_select", f32(3, 4), 1, np.array([2, 0])),
    case("gather", f32(3, 4), 1, np.array([[0, 3], [1, 1]])),
    case("take", f32(3, 4), np.array([[0, 11], [5, 5]])),
    case("take_along_dim", f32(2, 3), np.array([[0, 2, 1], [1, 1, 0]]), 1),
    case("take_along_dim", f32(2, 3), np.array([0, 5])).named("flat"),
    case("take_along_dim", f32(3, 3), np.array([[0, 2]]), 1).named("broadcast indices"),
    case("take_along_dim", f32(1, 3), np.array([[0], [2]]), 1).named("broadcast rows"),
    case("index", f32(4, 5), [np.array([0, 3])]),
    case("index", f32(4, 5), [None, np.array([[0, 3], [1, -1]])]).named("second"),
    case("index", f32(4, 5, 6), [np.array([0, 3]), np.array([[1], [2]])]).named("two"),
    case("index", f32(4, 5, 6), [None, np.array([0, 3]), np.array([1, 2])]).named("neighbours"),
    case("index", f32(4, 5, 6), [np.array([0, 3]), None, np.array([1, 2])]).named("apart"),
    case("index", f32(2, 3), [boolean(2, 3)]).named("mask"),
    case("index", f32(4, 3), [np.array([True, False, True, True])]).named("rows"),
    case("_unsafe_index", f32(4, 5), [np.array([0, 3])]),
    case("index_put", f32(4, 5), [np.array([0, 3])], f32(2, 5)),
    case("index_put", f32(4, 5), [np.array([0, 0])], f32(5), True).named("add"),
    case("index_put", f32(4, 5), [None, np.array([0, 3])], f32(4, 2)).named("second"),
    case("index_put", f32(4, 5), [boolean(4, 5)], SCALAR).named("mask"),
    case("index_put", f32(2, 3, 4), [boolean(2, 3)], SCALAR).named("outer mask"),
    case("index_put", f32(4, 5), [np.array([0, 3]), np.array([1, 2])], f32(2)).named("two"),
    case("_unsafe_index_put", f32(4), [np.array([0])], f32(1)),
    case("_index_put_impl", f32(4), [np.array([0])], f32(1)),
    case("nonzero", i64(3, 4, low=0, high=2)),
    case("argwhere", i64(3, 4, low=0, high=2)),
    case("nonzero", SCALAR).named("scalar"),
    case("nonzero_numpy", i64(3, 4, low=0, high=2)),
    case("masked_select", f32(2, 3), boolean(2, 3)),
    case("masked_select", f32(2, 3), boolean(3)).named("broadcast"),
    case("masked_scatter", f32(2, 3), boolean(2, 3), f32(6)),
    case("scatter", f32(3, 4), 1, IDS, f32(2, 2)),
    case("scatter.src", f32(3, 4), 1, IDS, f32(3, 3)),
    case("scatter.value", f32(3, 4), 0, IDS, 2.5),
    case("scatter.reduce", f32(3, 4), 1, IDS, f32(2, 2), reduce="multiply"),
    case("scatter.value_reduce", f32(3, 4), 1, IDS, 2.0, reduce="add"),
    case("scatter_add", f32(3, 4), 0, IDS, f32(2, 2)),
    *(
        case("scatter_reduce", f32(3, 4), 1, IDS, f32(2, 2), mode, include_self=own).named(f"{mode} {own}")
        for mode in ("sum", "prod", "amax", "amin", "mean")
        for own in (True, False)
    ),
    case("index_add", f32(4, 3), 0, np.array([1, 1]), f32(2, 3)),
    case("index_add", f32(3, 4), 1, np.array([1, 3]), f32(3, 2), alpha=2).named("alpha"),
    case("index_copy", f32(4, 3), 0, np.array([1, 3]), f32(2, 3)),
    case("index_fill", f32(4, 3), 1, np.array([0, 2]), 7.0),
    case("select_scatter", f32(4, 3), f32(3), 0, 1),
    case("select_scatter", f32(4, 3), f32(4), 1, -1).named("last"),
    case("slice_scatter", f32(5, 3), f32(2, 3), 0, 1, 3),
    case("slice_scatter", f32(5, 3), f32(2, 3), 0, 0, 4, 2).named("step"),
    case("slice_scatter", f32(5, 3), f32(5, 3)).named("all"),
    case("bucketize", f32(2, 3), np.array([-1.0, 0.0, 1.0], np.float32)),
    case("bucketize", i64(3), np.array([-1, 0, 1]), right=True, out_int32=True).named("right"),
    case("searchsorted", np.sort(f32(2, 5)), f32(2, 3)),
    case("searchsorted", np.sort(f32(5)), f32(2, 3), right=True).named("one"),
    case("isin", i64(2, 3), np.array([0, 1])),
    case("isin", i64(2, 3), np.array([0, 1]), invert=True).named("not"),
]
