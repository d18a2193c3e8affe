"""Files of onnxruntime-genai's builder against the Hugging Face folders that they were made from."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import convert
from convert.outcome.verdict import PASS
from tests.support.timm_helper import declare_torchvision_operators

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("onnxruntime_genai") is None, reason="needs the builder of onnxruntime-genai"),
]
_PROGRAM = """
import runpy, sys
from pathlib import Path
from tests.support.timm_helper import declare_torchvision_operators
declare_torchvision_operators()
import onnxruntime_genai
models = Path(onnxruntime_genai.__file__).parent / "models"
sys.path.insert(0, str(models))
sys.argv = ["builder", *sys.argv[1:]]
runpy.run_path(str(models / "builder.py"), run_name="__main__")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny Llama with a tokenizer, which the builder asks for."""
    declare_torchvision_operators()
    torch, transformers = (pytest.importorskip(name) for name in ("torch", "transformers"))
    tokenizers: Any = pytest.importorskip("tokenizers")
    place = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "max_position_embeddings": 256}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(vocab_size=99, **sizes, **heads)
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(99)}, unk_token="w0"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0").save_pretrained(place)
    return place


@pytest.mark.parametrize(
    ("precision", "stored"),
    [
        ("fp32", ""),
        ("int8", "int8 weights and int8 activations in blocks of 32"),
        ("int4", "int4 weights and int8 activations in blocks of 32"),
    ],
)
def test_a_file_of_the_builder_passes(precision: str, stored: str, folder: Path, tmp_path: Path) -> None:
    options = ["-i", folder, "-o", tmp_path, "-p", precision, "-e", "cpu", "-c", tmp_path / "cache"]
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *map(str, options)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = convert.verify(folder, tmp_path / "model.onnx").verdict
    assert (verdict.status, verdict.stored) == (PASS, stored), verdict.reason
    assert verdict.generation is not None
