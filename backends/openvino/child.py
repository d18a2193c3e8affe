"""The process in which OpenVINO converts: `python … convert.backends.openvino.child MODEL.onnx MODEL.xml`."""

from __future__ import annotations

import sys
from typing import Any

if __name__ == "__main__":
    modules: dict[str, Any] = sys.modules
    modules["openvino_telemetry"] = None  # OpenVINO 2026.4 falls back to a stub that sends nothing
    import openvino

    source, target = sys.argv[1:3]
    # Weights stay in float32: by default save_model rounds them to float16.
    openvino.save_model(openvino.convert_model(source), target, compress_to_fp16=False)
