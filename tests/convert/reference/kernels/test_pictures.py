"""Images in the reference executor: the operator's formats are decoded, and no program is started for other formats."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from convert.errors import Unsupported
from convert.reference.executor import run
from tests.support.onnx_support import info, model, read

image = pytest.importorskip("PIL.Image", reason="Pillow decodes")

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(/tmp/x) (w) file\n%%EOF\n"


def decoded(data: bytes, **attributes: Any) -> Any:
    node = helper.make_node("ImageDecoder", ["x"], ["y"], **attributes)
    outputs = [info("y", [None, None, None], TensorProto.UINT8)]
    proto = model([node], [info("x", [None], TensorProto.UINT8)], outputs, opset=20)
    return run(read(proto), {"x": np.frombuffer(data, np.uint8)})["y"]


@pytest.mark.parametrize("mode", ["RGB", "L", "P"])
def test_three_orders_of_channels(mode: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    file = io.BytesIO()
    picture = image.fromarray(pixels).convert(mode)
    picture.save(file, "PNG")
    wanted = np.asarray(picture.convert("RGB"))
    assert np.array_equal(decoded(file.getvalue()), wanted)
    assert np.array_equal(decoded(file.getvalue(), pixel_format="BGR"), wanted[:, :, ::-1])
    assert decoded(file.getvalue(), pixel_format="Grayscale").shape == (4, 5, 1)


def test_postscript_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **more: pytest.fail("a program was started"))
    with pytest.raises(Unsupported, match="not an image"):
        decoded(POSTSCRIPT)
