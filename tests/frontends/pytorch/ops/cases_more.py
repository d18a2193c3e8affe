"""Cases of the PyTorch frontend's rules for running extremes, medians, bags, grids, and what else moves elements."""

from __future__ import annotations

import numpy as np

from tests.support.cases import boolean, case, f32, i64

MISSING = np.array([[1, np.nan, 3, 2], [np.nan, np.nan, np.nan, np.nan], [4, 3, 2, 1]], np.float32)
SMALL = np.array([[1, 2, 2, 3, 1], [0, 0, 4, 4, 4]])
FLOATS = np.array([0.0, 1.0, -1.0, 0.75, -3.5, 1e-30, 3e38, np.inf, np.nan], np.float32)
EDGES = np.array([-2.0, -0.5, 0.25, 2.0], np.float32)
BAG = (f32(6, 3), np.array([0, 2, 1, 5, 5]), np.array([0, 2, 2]))

MORE = [
    *(case(name, f32(3, 5), 1) for name in ("cumprod", "cummax", "cummin", "logcumsumexp")),
    *(case(name, MISSING, 1).named("nan") for name in ("cummax", "cummin", "median.dim")),
    case("nanmedian.dim", MISSING[::2], 1).named("nan"),
    *(case(name, i64(7), 0).named("int") for name in ("cumprod", "cummax", "cummin")),
    *(case(name, np.array(2.0, np.float32), 0).named("0-d") for name in ("cumprod", "cummax", "logcumsumexp")),
    *(case(name, f32(3, 5)) for name in ("median", "nanmedian", "mode")),
    *(case(name, f32(3, 5), 1, True).named("keep") for name in ("median.dim", "nanmedian.dim", "mode")),
    case("mode", SMALL, 1).named("int"),
    *(case("kthvalue", f32(3, 5), k, 1) for k in (1, 3)),
    case("kthvalue", f32(3, 5), 2, 0, True).named("keep"),
    case("_unique2", SMALL, True, True, True),
    case("unique_dim", SMALL, 1, True, True, True),
    case("unique_consecutive", SMALL, True, True),
    case("unique_consecutive", SMALL, True, True, 1).named("dim"),
    case("_safe_softmax", np.array([[1, 2], [-np.inf, -np.inf]], np.float32), 1),
    *(case(name, f32(2, 4, 6), 2) for name in ("hsplit", "vsplit", "dsplit")),
    *(case(name, f32(2, 4, 6), [1, 2]).named("list") for name in ("hsplit", "dsplit")),
    *(case(name, f32(4)) for name in ("atleast_2d", "atleast_3d")),
    case("cartesian_prod", [f32(2), f32(3)]),
    case("matrix_H", f32(2, 3)),
    *(case(name, f32(2, 3)) for name in ("real", "_conj_physical", "conj", "conj_physical", "angle")),
    case("frexp", FLOATS),
    case("nextafter", FLOATS[:, None], FLOATS),
    case("linspace", np.array(1.0, np.float32), np.array(4.0, np.float32), 6).named("run time"),
    case("logspace", np.array(1.0, np.float32), np.array(3.0, np.float32), 5, 2.0).named("run time"),
    case("logspace", 0.0, 2.0, 5),
    case("nonzero_static", SMALL, size=4),
    case("nonzero_static", SMALL, size=12, fill_value=-7).named("more"),
    case("put", f32(2, 3), np.array([1, 4]), f32(2)),
    case("put", f32(2, 3), np.array([1, 1]), f32(2), True).named("add"),
    *(
        case("index_reduce", f32(4, 3), 0, np.array([0, 2, 0]), f32(3, 3), how)
        for how in ("prod", "mean", "amax", "amin")
    ),
    *(
        case("index_reduce", f32(4, 3), 0, np.array([0, 2, 0]), f32(3, 3), how, include_self=False).named(
            f"{how} alone"
        )
        for how in ("prod", "mean", "amax", "amin")
    ),
    *(case(name, f32(4, 3), 2.0) for name in ("pdist", "_pdist_forward")),
    *(
        case(name, f32(2, 3, 4, 5), f32(2, 6, 7, 2, low=-1.2, high=1.2), mode, pads, corners).named(
            f"{mode}{pads}{corners}"
        )
        for name, mode, pads, corners in (
            ("grid_sampler", 0, 0, False),
            ("grid_sampler", 1, 1, False),
            ("grid_sampler_2d", 0, 2, True),
            ("grid_sampler_2d", 2, 0, True),
        )
    ),
    case("grid_sampler_3d", f32(1, 2, 3, 4, 5), f32(1, 2, 3, 4, 3, low=-1.2, high=1.2), 0, 0, False),
    case("col2im", f32(2, 12, 4), [4, 4], [2, 2], [1, 1], [0, 0], [2, 2]),
    *(case("embedding_bag", *BAG, False, mode).named(f"mode {mode}") for mode in (0, 1, 2)),
    case("_embedding_bag", *BAG, False, 0, False, f32(5)).named("weights"),
    case("_embedding_bag_forward_only", *BAG, False, 1, False, None, False, 5).named("padding"),
    case("embedding_bag", f32(6, 3), np.array([0, 2, 1]), np.array([0, 2, 3]), False, 0, False, None, True).named(
        "last"
    ),
    case("native_group_norm", f32(2, 4, 6), f32(4), f32(4), 2, 4, 6, 2, 1e-5),
    case("adaptive_max_pool2d", f32(1, 2, 7, 5), [3, 2]).named("uneven"),
    case("adaptive_max_pool1d", boolean(1, 2, 7).astype(np.float32), [3]).named("ties"),
    case("pad", f32(2, 3, 4), [1, 2, 2, 1], "circular").named("circular"),
    case("pad", f32(1, 3, 4), [1, -1], "replicate").named("replicate, cut"),
    case("diagonal_scatter", f32(3, 4), f32(3), 1),
    case("diagonal_scatter", f32(4, 2, 3), f32(2, 3), -1, 0, 2).named("dims"),
    *(case("histc", f32(20), 5, *ends).named(f"{ends}") for ends in ((), (-1, 1), (0, 0))),
    case("resize", f32(3, 4), [2, 3]),
    case("resize_as", f32(3, 4), f32(2, 5)),
    *(
        case("segment_reduce", f32(5, 2), how, lengths=np.array([2, 0, 3]), initial=1.0).named(how)
        for how in ("sum", "mean", "max", "min", "prod")
    ),
    case("segment_reduce", f32(5, 2), "mean", offsets=np.array([0, 2, 2, 5])).named("offsets"),
    case("histogram", f32(20), 4),
    case("histogram", f32(20), 4, range=[-1.0, 1.0]).named("range"),
    case("histogram", f32(20), np.array([-2.0, -0.5, 0.25, 2.0], np.float32), weight=f32(20), density=True).named(
        "edges"
    ),
]
