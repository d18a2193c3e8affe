"""Files without what TensorFlow's converter writes for nobody: the rest stays as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.tensorflow_lite_helper import encode, graph_of, run  # noqa: E402  (after what it needs)


class Small(torch.nn.Module):
    """A recurrent layer and two branches whose operations have the same names; an output is another output's input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = torch.nn.LSTM(4, 5, batch_first=True), torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.layer(x)[0]
        return {"rows": y, "sum": self.last(y.relu()) + self.last(y).relu()}


def test_names_and_results(tmp_path: Path) -> None:
    from convert.backends.tensorflow.lite.file_objects import LiteFile

    torch.manual_seed(0)
    module, x = Small(), torch.randn(2, 6, 4)
    path = encode(graph_of(module, "x:float32[batch,6,4]"), tmp_path)
    graph, *bodies = LiteFile(path.read_bytes()).model.subgraphs
    for part in (graph, *bodies):
        names = [tensor.name.decode() for tensor in part.tensors]
        inner = [names[i] for i in range(len(names)) if i not in {*part.inputs, *part.outputs}]
        assert len(set(names)) == len(names)
        assert inner
        assert not any(";" in name or name.startswith("model/") for name in inner)
    for name, want in module(x).items():
        got = run(path, {"x": x.numpy()})[name]
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_files_of_weights_stay_as_they_are(tmp_path: Path) -> None:
    from convert.backends.tensorflow.lite.compact import compact

    data = encode(graph_of(torch.nn.Linear(400, 400), "input:float32[1,400]"), tmp_path).read_bytes()
    assert compact(data) is data
