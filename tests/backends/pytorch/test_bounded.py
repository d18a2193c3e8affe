"""What a file can make PyTorch's capture do without end."""

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

import convert
from convert import limits
from convert.errors import ResourceLimit

ENDS = {"pads": "Pad(x, m)", "a shape": "Reshape(x, m)", "repeats": "Tile(x, m)", "starts": "Slice(x, m, m)"}


@pytest.mark.parametrize("name", ENDS)
def test_more_sizes_than_any_tensor_has(name: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[8] x, int64[1] n) => (float[j] y) '
        f"<int64[1] k = {{5000}}> {{ m = Tile(n, k) y = {ENDS[name]} }}"
    )
    with pytest.raises(ResourceLimit, match=f"5,000 numbers .* more than the {2 * limits.TENSOR_DIMS}"):
        convert.convert(model, "torch", tmp_path / "m.pt2", verify=False)
