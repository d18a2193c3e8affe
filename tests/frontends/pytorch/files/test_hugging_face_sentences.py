"""Folders of sentence-transformers, against its arithmetic written with numpy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.files.hugging_face import note_companions
from convert.frontends.pytorch.files.hugging_face_sentences import SentenceModules, load_sentence_modules
from safetensors.torch import save_file

import convert
from convert.errors import BadInput, UnsafeInput, Unsupported, UsageError
from convert.files.companions import copy_companions
from convert.graph import Graph
from convert.graph.metadata import COMPANIONS_KEY
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.pytorch_tools import run
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
transformers: Any = pytest.importorskip("transformers", reason="Hugging Face folders need transformers")

WIDTH = 16
TYPE = "sentence_transformers.models."
PREFIX = "pooling_mode_"
MASKS = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 1, 1]])
Array = np.ndarray


def rows_of(pool: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """Return a pooling of the unmasked tokens, row by row."""
    return lambda tokens, mask: np.stack([pool(t[m == 1]) for t, m in zip(tokens, mask, strict=True)])


def weighted(tokens: Array, mask: Array) -> Array:
    weights = mask * np.arange(1, mask.shape[1] + 1)
    return np.einsum("btw,bt->bw", tokens, weights) / weights.sum(1, keepdims=True)


POOLINGS: dict[str, Callable[[Array, Array], Array]] = {
    "cls_token": lambda tokens, mask: tokens[:, 0],
    "max_tokens": rows_of(lambda t: t.max(0)),
    "mean_tokens": rows_of(lambda t: t.mean(0)),
    "mean_sqrt_len_tokens": rows_of(lambda t: t.sum(0) / np.sqrt(len(t))),
    "weightedmean_tokens": weighted,
    "lasttoken": rows_of(lambda t: t[-1]),
}


def write_module(root: Path, name: str, config: Any, weights: dict[str, torch.Tensor] | None = None) -> None:
    (root / name).mkdir()
    (root / name / "config.json").write_text(json.dumps(config))
    if weights is not None:
        save_file(weights, root / name / "model.safetensors")


def pooling(*names: str) -> dict[str, Any]:
    return {"word_embedding_dimension": WIDTH} | {f"{PREFIX}{n}": n in names for n in POOLINGS}


def list_modules(root: Path, *rows: tuple[str, str]) -> None:
    rows = (("Transformer", ""), *rows)
    table = [{"idx": i, "name": str(i), "path": path, "type": TYPE + kind} for i, (kind, path) in enumerate(rows)]
    (root / "modules.json").write_text(json.dumps(table))


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_takes_the_tokens_that_the_mask_leaves(name: str, tmp_path: Path) -> None:
    write_module(tmp_path, "1_Pooling", pooling(name))
    list_modules(tmp_path, ("Pooling", "1_Pooling"))
    tokens = np.random.default_rng(0).normal(size=(4, 5, WIDTH)) - 3
    found = load_sentence_modules(tmp_path)(torch.from_numpy(tokens), torch.from_numpy(MASKS))
    np.testing.assert_allclose(found["sentence_embedding"].numpy(), POOLINGS[name](tokens, MASKS), rtol=1e-9)
    np.testing.assert_array_equal(found["last_hidden_state"].numpy(), tokens)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (pooling("mean_tokens", "max_tokens"), ["max_tokens", "mean_tokens"]),  # joined in the order of the library
        ({"word_embedding_dimension": WIDTH}, ["mean_tokens"]),
        ({"embedding_dimension": WIDTH, "pooling_mode": "cls", "include_prompt": True}, ["cls_token"]),
        ({"pooling_mode": ["mean", "lasttoken"]}, ["mean_tokens", "lasttoken"]),
    ],
)
def test_ways_of_pooling_are_joined(config: dict[str, Any], names: list[str], tmp_path: Path) -> None:
    write_module(tmp_path, "1_Pooling", config)
    list_modules(tmp_path, ("Pooling", "1_Pooling"))
    tokens = np.random.default_rng(0).normal(size=(4, 5, WIDTH))
    found = load_sentence_modules(tmp_path)(torch.from_numpy(tokens), torch.from_numpy(MASKS))["sentence_embedding"]
    np.testing.assert_allclose(found.numpy(), np.concatenate([POOLINGS[n](tokens, MASKS) for n in names], 1), rtol=1e-9)


PLACES = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}


@pytest.mark.parametrize("config", [None, PLACES], ids=["before 6.0", "since 6.0"])
def test_a_sentence_gets_length_one(config: dict[str, Any] | None, tmp_path: Path) -> None:
    write_module(tmp_path, "1_Pooling", pooling("mean_tokens"))
    if config is not None:
        write_module(tmp_path, "2_Normalize", config)
    list_modules(tmp_path, ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    tokens = torch.randn(4, 5, WIDTH)
    found = load_sentence_modules(tmp_path)(tokens, torch.ones(4, 5))["sentence_embedding"]
    torch.testing.assert_close(found, tokens.mean(1) / tokens.mean(1).norm(dim=1, keepdim=True))


def bert(folder: Path) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": WIDTH, "num_attention_heads": 4, "intermediate_size": 32}
    model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes, num_hidden_layers=1)).eval()
    model.save_pretrained(folder)  # its architectures name the class with which it was trained
    return model.bert


@pytest.mark.slow
@pytest.mark.parametrize("pickled", [False, True])
def test_a_folder_gives_embeddings_of_sentences(pickled: bool, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    encoder = bert(folder)
    weights = {"linear.weight": torch.randn(6, WIDTH), "linear.bias": torch.randn(6)}
    dense = {"in_features": WIDTH, "out_features": 6, "bias": True}
    dense["activation_function"] = "torch.nn.modules.activation.Tanh"
    write_module(folder, "1_Pooling", pooling("mean_tokens"))
    write_module(folder, "2_Dense", dense, None if pickled else weights)
    if pickled:
        torch.save(weights, folder / "2_Dense" / "pytorch_model.bin")
    list_modules(folder, ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Normalize", "3_Normalize"))
    report = Report("convert")
    model = frontend.read(Source("hf-folder", folder), Options(), report)
    assert [v.name for v in model.graph.outputs] == ["last_hidden_state", "sentence_embedding"]
    assert list(map(str, model.graph.outputs[1].shape or ())) == ["batch_size", "6"]
    assert not [note for note in report.notes if note.code == "unused-modules"]
    mask = MASKS[:3]
    ids = np.random.default_rng(0).integers(0, 50, mask.shape)
    with torch.no_grad():
        tokens = encoder(torch.from_numpy(ids), torch.from_numpy(mask)).last_hidden_state.numpy()
    want = np.tanh(
        POOLINGS["mean_tokens"](tokens, mask) @ weights["linear.weight"].numpy().T + weights["linear.bias"].numpy()
    )
    want /= np.linalg.norm(want, axis=1, keepdims=True)
    found = run(model, ids, mask, np.zeros_like(ids))
    np.testing.assert_allclose(found[0], tokens, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(found[1], want, rtol=1e-4, atol=2e-5)


@pytest.mark.slow
def test_the_transformer_alone_may_be_asked_for(tmp_path: Path) -> None:
    bert(tmp_path / "m")
    options = Options(extra={"task": "sentence-similarity"})
    with pytest.raises(UsageError, match=r"has no modules\.json"):
        frontend.read(Source("hf-folder", tmp_path / "m"), options, Report("convert"))
    list_modules(tmp_path / "m", ("WeightedLayerPooling", "1_Pooling"))
    with pytest.raises(Unsupported, match="has a WeightedLayerPooling in 1_Pooling"):
        frontend.read(Source("hf-folder", tmp_path / "m"), Options(), Report("convert"))
    options = Options(extra={"task": "feature-extraction"})
    with pytest.raises(BadInput, match="lacks weights of BertModel: pooler"):
        frontend.read(Source("hf-folder", tmp_path / "m"), options, Report("convert"))


@pytest.mark.slow
def test_an_encoder_of_t5_embeds_sentences(tmp_path: Path) -> None:
    size = {"vocab_size": 50, "d_model": WIDTH, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    module = transformers.T5ForConditionalGeneration(transformers.T5Config(**size)).eval()
    module.save_pretrained(tmp_path / "m")
    write_module(tmp_path / "m", "1_Pooling", pooling("mean_tokens"))
    list_modules(tmp_path / "m", ("Pooling", "1_Pooling"))
    report = convert.convert(tmp_path / "m", "onnx", tmp_path / "out", verify=False)
    assert [t.name for t in report.outputs] == ["last_hidden_state", "sentence_embedding"]


@pytest.mark.parametrize(
    ("rows", "config", "kind", "told"),
    [
        ([("Pooling", "../p")], {}, UnsafeInput, "outside of the model's folder"),
        ([("Pooling", "p")], pooling("mean_tokens") | {"include_prompt": False}, Unsupported, "include_prompt false"),
        ([("Pooling", "p")], pooling(), Unsupported, "pools by nothing"),
        ([("Pooling", "p")], {"pooling_mode": "median"}, Unsupported, "pools by median"),
        (
            [("Pooling", "q"), ("Normalize", "p")],
            {**PLACES, "module_input_name": "token_embeddings"},
            Unsupported,
            'asks for module_input_name "token_embeddings"',
        ),
        ([("Normalize", "p")], {}, Unsupported, "has a Normalize in p at this place"),
        ([("Pooling", "p"), ("Pooling", "p")], pooling("max_tokens"), Unsupported, "has a Pooling in p at this place"),
        ([], {}, Unsupported, "has no Pooling"),
        ([("Pooling", "p")], [], BadInput, "is not a JSON object"),
    ],
)
def test_modules_without_a_rule_are_refused(rows: Any, config: Any, kind: Any, told: str, tmp_path: Path) -> None:
    write_module(tmp_path, "p", config)
    list_modules(tmp_path, *rows)
    with pytest.raises(kind, match=told):
        load_sentence_modules(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"out_features": 7}, "are not those that its config.json describes"),
        ({"bias": False}, "are not those that its config.json describes"),
        ({"activation_function": "os.system"}, "has the activation os.system"),
        ({"module_input_name": "token_embeddings"}, "asks for module_input_name"),
    ],
)
def test_a_dense_layer_is_the_one_that_is_described(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    write_module(tmp_path, "1_Pooling", pooling("mean_tokens"))
    config = {"in_features": WIDTH, "out_features": 6, "bias": True, **change}
    weights = {"linear.weight": torch.randn(6, WIDTH), "linear.bias": torch.randn(6)}
    write_module(tmp_path, "2_Dense", config, weights)
    list_modules(tmp_path, ("Pooling", "1_Pooling"), ("Dense", "2_Dense"))
    with pytest.raises((BadInput, Unsupported), match=told):
        load_sentence_modules(tmp_path)


def test_a_mask_may_be_left_out(tmp_path: Path) -> None:
    write_module(tmp_path, "1_Pooling", pooling("mean_tokens"))
    list_modules(tmp_path, ("Pooling", "1_Pooling"))
    modules: SentenceModules = load_sentence_modules(tmp_path)
    tokens = torch.randn(2, 3, WIDTH)
    torch.testing.assert_close(modules(tokens, None)["sentence_embedding"], tokens.mean(1))


def test_modules_are_copied_beside_the_model(tmp_path: Path) -> None:
    """sentence-transformers and text-embeddings-inference pool by these files."""
    folder, place = tmp_path / "source", tmp_path / "out" / "model.onnx"
    inside = ["1_Pooling/config.json", "2_Dense/model.safetensors", "config.json", "modules.json"]
    for name in [*inside, "3_More/other.txt", "weights.bin", "4_Link/other.txt"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "tokenizer.json").symlink_to("config.json")
    (tmp_path / "elsewhere.json").write_text("{}")
    (folder / "4_Link" / "config.json").symlink_to(tmp_path / "elsewhere.json")
    note_companions(model := Graph().model(), folder)
    copy_companions(model.meta[COMPANIONS_KEY], place, Report("convert"))
    written = [file.relative_to(place.parent).as_posix() for file in place.parent.rglob("*") if file.is_file()]
    assert sorted(written) == [*inside, "tokenizer.json"]
