"""The rules of `frontends/tensorflow/ops/diagonal/tables.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

ROWS = [
    *(case("Diag", f32(*dims)).named(f"rank {len(dims)}") for dims in ((3,), (2, 3))),
    *(case("DiagPart", f32(*dims, *dims)).named(f"rank {2 * len(dims)}") for dims in ((3,), (2, 3))),
    case("MatrixDiagPart", f32(2, 3, 4)),
    case("MatrixDiagPartV2", f32(2, 3, 4), [-1, 1], np.float32(9)),
    *(
        case("MatrixDiagPartV3", f32(2, 4, 5), k, np.float32(9), align=align).named(f"{k} {align}")
        for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
        for k in ([0], [1], [-2, 3], [-3, -1])
    ),
    case("MatrixDiag", f32(2, 3)),
    case("MatrixDiagPartV3", f32(2, 3, 4), np.int32(-1), np.float32(9)).named("by data"),
    case("MatrixDiagV3", f32(2, 3), np.int32(2), np.int32(4), np.int32(-1), np.float32(9)).named("by data"),
    case("MatrixDiagV3", f32(2, 3), np.int32(-1), -1, -1, np.float32(9)).named("of a computed number"),
    case("MatrixSetDiagV3", f32(2, 3, 4), f32(2, 3), np.int32(1)).named("by data"),
    *(
        case("MatrixSetDiagV3", f32(2, 3, 4), f32(2, 3, 3), np.array([-1, 1], np.int32), align=align).named(
            f"by data, {align}"
        )
        for align in ("LEFT_LEFT", "RIGHT_LEFT", "LEFT_RIGHT", "RIGHT_RIGHT")
    ),
    *(
        case("MatrixDiagPartV3", f32(2, 4, 5), np.int32(k), np.float32(9), align=align).named(f"by data {k} {align}")
        for align in ("RIGHT_LEFT", "LEFT_RIGHT")
        for k in ([-2, 3], [1, 1], [-3, -1])
    ),
    case("MatrixDiagPartV3", f32(4, 5), np.int32([-1, -1]), np.float32(9)).named("one of a matrix by data"),
    *(
        case("MatrixDiagV3", f32(2, 3, 4), np.int32(k), rows, -1, np.float32(9), align=align).named(
            f"by data {k} {rows} {align}"
        )
        for align in ("RIGHT_LEFT", "LEFT_RIGHT")
        for k, rows in (([-1, 1], -1), ([-1, 1], 5), ([0, 0], -1), ([2, 2], -1))
    ),
    case("MatrixDiagV3", f32(4), np.int32([-1, -1]), -1, -1, np.float32(9)).named("one of one vector by data"),
    case("MatrixDiagV2", f32(2, 3), 1, -1, -1, np.float32(9)),
    *(
        case("MatrixDiagV3", f32(2, 3, 4), [-1, 1], 4, rows, np.float32(9), align=align).named(f"{rows} {align}")
        for align in ("RIGHT_LEFT", "LEFT_RIGHT")
        for rows in (4, 5)
    ),
    case("MatrixSetDiag", f32(2, 3, 4), f32(2, 3)),
    case("MatrixSetDiagV2", f32(2, 3, 4), f32(2, 2, 3), [0, 1]),
    case("MatrixSetDiagV3", f32(2, 3, 4), f32(2, 3, 3), [-1, 1], align="RIGHT_LEFT"),
    case("MatrixDiag", f32(4)).named("of one vector"),
    *(
        case("MatrixDiagV3", f32(4), k, -1, -1, np.float32(9), align="RIGHT_LEFT").named(f"of one vector, {k}")
        for k in (-2, 0, 1)
    ),
    case("MatrixDiagV3", f32(3), 1, np.int32(5), np.int32(4), np.float32(9), align="RIGHT_LEFT").named("size by data"),
    *(
        case("MatrixDiagPartV3", f32(5, 4), k, np.float32(9), align="RIGHT_LEFT").named(f"of one matrix, {k}")
        for k in (-2, 0, 1)
    ),
    *(
        case("MatrixSetDiagV3", f32(5, 4), f32(n), k, align="RIGHT_LEFT").named(f"of one matrix, {k}")
        for k, n in ((-2, 3), (0, 4), (1, 3))
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
