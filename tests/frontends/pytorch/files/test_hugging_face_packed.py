"""Weights that GPTQ, AWQ and compressed-tensors packed: the integers, scales and zero points are known to the test.

The tensors are packed here by the published layouts, one integer after the other, and the expected weights are
`scale * (integer - zero_point)` of the integers before they were packed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.files.hugging_face_packed import is_packed, unpack_weights
from convert.frontends.pytorch.files.loader import load
from safetensors.torch import save_file

from convert.errors import BadInput, ConvertError, Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.support.timm_helper import declare_torchvision_operators

declare_torchvision_operators()
OUTPUTS, INPUTS, GROUP = 32, 64, 16


def packed_rows(rows: np.ndarray, bits: int) -> np.ndarray:
    """Pack integers along the first dim into 32-bit words, the first integer in the lowest bits, without gaps."""
    words = np.zeros((rows.shape[0] * bits // 32, rows.shape[1]), np.uint64)
    for place, row in enumerate(rows.astype(np.uint64)):
        for bit in range(bits):
            at = place * bits + bit
            words[at // 32] |= ((row >> np.uint64(bit)) & np.uint64(1)) << np.uint64(at % 32)
    return words.astype(np.uint32).view(np.int32)


def packed_awq(values: np.ndarray) -> np.ndarray:
    """Pack eight columns into a word: nibble i of it holds column (0, 2, 4, 6, 1, 3, 5, 7)[i]."""
    words = np.zeros((values.shape[0], values.shape[1] // 8), np.uint32)
    for word in range(words.shape[1]):
        for nibble, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
            words[:, word] |= values[:, word * 8 + column].astype(np.uint32) << np.uint32(4 * nibble)
    return words.view(np.int32)


class Layer:
    """A layer with random integers: [inputs, outputs], and zero points and scales for groups of inputs."""

    def __init__(self, bits: int, *, most_zero: int | None = None, ordered: bool = False) -> None:
        rng = np.random.default_rng(bits)
        self.bits, groups = bits, INPUTS // GROUP
        self.integers = rng.integers(0, 1 << bits, (INPUTS, OUTPUTS))
        self.zeros = rng.integers(1, 1 << bits if most_zero is None else most_zero, (groups, OUTPUTS))
        self.scales = rng.uniform(0.01, 0.1, (groups, OUTPUTS)).astype(np.float16)
        self.groups = np.arange(INPUTS) // GROUP
        if ordered:
            rng.shuffle(self.groups)
        exact = self.scales.astype(np.float64)[self.groups] * (self.integers - self.zeros[self.groups])
        self.weight = exact.astype(np.float16).T

    def gptq(self, offset: int) -> dict[str, np.ndarray]:
        zeros = packed_rows((self.zeros - offset).T, self.bits).T
        return {
            "qweight": packed_rows(self.integers, self.bits), "qzeros": zeros, "scales": self.scales,
            "g_idx": self.groups.astype(np.int32),
        }  # fmt: skip

    def awq(self) -> dict[str, np.ndarray]:
        return {"qweight": packed_awq(self.integers), "qzeros": packed_awq(self.zeros), "scales": self.scales}

    def compressed(self, zeros: bool) -> dict[str, np.ndarray]:
        found = {
            "weight_packed": packed_rows(self.integers, self.bits).T, "weight_scale": self.scales.T,
            "weight_shape": np.array([OUTPUTS, INPUTS]),
        }  # fmt: skip
        return {**found, "weight_zero_point": packed_rows(self.zeros.T, self.bits)} if zeros else found


def folder(path: Path, tensors: dict[str, np.ndarray], **quantization: Any) -> dict[str, Any]:
    """Write the tensors of a layer `l`; return a configuration."""
    save_file({f"l.{n}": torch.from_numpy(np.ascontiguousarray(t)) for n, t in tensors.items()}, path / "w.safetensors")
    return {"quantization_config": quantization}


def compressed_config(bits: int, **more: Any) -> dict[str, Any]:
    groups = {"group_0": {"weights": {"num_bits": bits}, "input_activations": None, **more}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}


def unpacked(path: Path, config: dict[str, Any]) -> np.ndarray:
    assert is_packed(config)
    found = unpack_weights(path, config, Report("test"))
    assert list(found) == ["l.weight"]
    return found["l.weight"].numpy()


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("layout", ["gptq", "gptq_v2"])
def test_gptq(bits: int, layout: str, tmp_path: Path) -> None:
    layer = Layer(bits, ordered=True)
    config = folder(tmp_path, layer.gptq(layout == "gptq"), quant_method="gptq", bits=bits, checkpoint_format=layout)
    np.testing.assert_array_equal(unpacked(tmp_path, config), layer.weight)


def test_gptq_without_an_order_has_groups_of_one_size(tmp_path: Path) -> None:
    layer = Layer(4)
    tensors = layer.gptq(1)
    del tensors["g_idx"]
    np.testing.assert_array_equal(unpacked(tmp_path, folder(tmp_path, tensors, quant_method="gptq")), layer.weight)


def test_awq(tmp_path: Path) -> None:
    layer = Layer(4)
    config = folder(tmp_path, layer.awq(), quant_method="awq", bits=4, version="gemm")
    np.testing.assert_array_equal(unpacked(tmp_path, config), layer.weight)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_compressed_tensors(bits: int, zeros: bool, tmp_path: Path) -> None:
    layer = Layer(bits)
    if not zeros:
        exact = layer.scales.astype(np.float64)[layer.groups] * (layer.integers - (1 << (bits - 1)))
        layer.weight = exact.astype(np.float16).T
    config = folder(tmp_path, layer.compressed(zeros), **compressed_config(bits))
    np.testing.assert_array_equal(unpacked(tmp_path, config), layer.weight)


def test_a_zero_point_that_writers_store_in_two_ways_is_refused(tmp_path: Path) -> None:
    layer = Layer(4)
    layer.zeros[:] = 16
    config = folder(tmp_path, layer.gptq(1), quant_method="gptq")
    with pytest.raises(Unsupported, match="in different ways"):
        unpacked(tmp_path, config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "gptq", "checkpoint_format": "marlin"}, "the layout 'marlin'"),
        ({"quant_method": "awq", "version": "gemv"}, "the layout 'gemv'"),
        ({"quant_method": "awq", "bits": 8}, "of 8 bits"),
        (compressed_config(3), "2, 4 or 8 bits"),
        (compressed_config(4, input_activations={"num_bits": 8}), "quantize input_activations"),
    ],
)
def test_other_layouts_are_refused(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=message):
        unpacked(tmp_path, folder(tmp_path, Layer(4).awq(), **config))


@pytest.mark.parametrize("lost", ["qzeros", "scales"])
def test_an_incomplete_layer_is_refused(lost: str, tmp_path: Path) -> None:
    tensors = Layer(4).gptq(1)
    del tensors[lost]
    with pytest.raises(BadInput, match="do not fit together"):
        unpacked(tmp_path, folder(tmp_path, tensors, quant_method="gptq"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"g_idx": np.full(INPUTS, -1)}, "a group that is not one of 4"),
        ({"g_idx": np.full(INPUTS, 4)}, "a group that is not one of 4"),
        ({"g_idx": np.zeros(INPUTS, np.float32)}, "g_idx is float32"),
        ({"g_idx": np.zeros(1, np.int32)}, r"integers \[32, 64\] for 32 outputs and 1 inputs"),
        ({"qweight": np.zeros((8, 1), np.int32)}, r"integers \[1, 64\] for 32 outputs"),
        ({"qweight": np.zeros((8, OUTPUTS), np.int64)}, "words of int64"),
        ({"qweight": np.zeros((1, 8, OUTPUTS), np.int32)}, r"qweight has the shape \[1, 8, 32\]"),
        ({"qzeros": np.zeros((1, 4), np.int32)}, r"zero points \[32, 1\] for scales \[32, 4\]"),
        ({"scales": np.zeros((4, 0), np.float16)}, "scales has the shape"),
        ({"scales": np.ones((4, OUTPUTS), np.int32)}, "scales is int32"),
        ({"weight": np.ones((OUTPUTS, INPUTS), np.float16)}, "has packed weights and others"),
    ],
)
def test_tensors_that_contradict_each_other_are_refused(
    change: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    """PyTorch would repeat single rows, count groups from the end, and drop the upper half of wide words."""
    with pytest.raises(BadInput, match=message):
        unpacked(tmp_path, folder(tmp_path, Layer(4).gptq(1) | change, quant_method="gptq"))


@pytest.mark.parametrize("shape", [[1 << 40, INPUTS], [OUTPUTS, 1 << 40], [-1, -1], [OUTPUTS], [16, INPUTS]])
def test_a_size_that_is_not_that_of_the_words_is_refused(shape: list[int], tmp_path: Path) -> None:
    tensors = {**Layer(4).compressed(False), "weight_scale": np.ones(1, np.float16), "weight_shape": np.array(shape)}
    with pytest.raises(BadInput, match="do not fit together"):
        unpacked(tmp_path, folder(tmp_path, tensors, **compressed_config(4)))


def test_groups_of_minus_one_say_that_inputs_are_not_ordered(tmp_path: Path) -> None:
    """compressed-tensors fills `weight_g_idx` with -1 before it orders the inputs."""
    layer = Layer(4)
    tensors = {**layer.compressed(True), "weight_g_idx": np.full(INPUTS, -1, np.int32)}
    np.testing.assert_array_equal(unpacked(tmp_path, folder(tmp_path, tensors, **compressed_config(4))), layer.weight)


@pytest.mark.parametrize("groups", [[1], 5, {}, {"g": 5}, {"g": {"weights": None}}, {"g": {"weights": [4]}}])
def test_groups_that_describe_no_weights_are_refused(groups: Any, tmp_path: Path) -> None:
    config = {**compressed_config(4), "config_groups": groups}
    with pytest.raises(Unsupported, match="config_groups do not describe"):
        unpacked(tmp_path, folder(tmp_path, Layer(4).compressed(True), **config))


def test_one_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    config = folder(tmp_path, Layer(4).gptq(1), quant_method="gptq")
    save_file({"l.scales": torch.ones(4, OUTPUTS)}, tmp_path / "x.safetensors")
    with pytest.raises(BadInput, match=r"has l\.scales in several files"):
        unpacked(tmp_path, config)


def test_what_is_packed() -> None:
    assert not is_packed({})
    assert not is_packed({"quantization_config": {"quant_method": "bitsandbytes"}})
    assert not is_packed({"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized"}})


# -- whole folders ----------------------------------------------------------------------------------------------------


def llama(path: Path) -> Any:
    """Write the folder of a tiny Llama; return the model."""
    transformers = pytest.importorskip("transformers", reason="Hugging Face folders need transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=32,
        num_key_value_heads=4, max_position_embeddings=64, dtype="float16",
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).half().eval()
    model.save_pretrained(path)
    return model


def quantize_folder(path: Path, model: Any) -> None:
    """Replace the weights of the linear layers in a folder by GPTQ's tensors, and those of `model` by their values."""
    state = {}
    for name, tensor in model.state_dict().items():
        layer = name.removesuffix(".weight")
        if not layer.endswith("_proj"):
            state[name] = tensor.clone()
            continue
        made = Layer(4)
        made.integers, made.zeros, made.scales = made.integers[:32, :32], made.zeros[:2, :32], made.scales[:2, :32]
        made.groups = made.groups[:32]
        weight = made.scales.astype(np.float64)[made.groups] * (made.integers - made.zeros[made.groups])
        model.get_parameter(name).data = torch.from_numpy(weight.astype(np.float16).T)
        state |= {f"{layer}.{n}": torch.from_numpy(np.ascontiguousarray(t)) for n, t in made.gptq(1).items()}
    save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False}
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.slow
def test_a_folder_computes_what_its_integers_say(tmp_path: Path) -> None:
    expected = llama(tmp_path)
    quantize_folder(tmp_path, expected)
    found = load(Source("hf-folder", tmp_path), Options(extra={"task": "text-generation"}), report := Report("test"))
    tokens = torch.arange(10).reshape(2, 5)
    with torch.no_grad():
        torch.testing.assert_close(found(tokens, torch.ones_like(tokens))["logits"], expected(tokens).logits)
    assert [str(note) for note in report.notes if note.code == "unpacked-weights"] == [
        "the weights of 7 layers were unpacked from GPTQ"
    ]


@pytest.mark.slow
def test_a_tensor_without_a_place_is_refused(tmp_path: Path) -> None:
    model = llama(tmp_path)
    quantize_folder(tmp_path, model)
    file = tmp_path / "model.safetensors"
    from safetensors.torch import load_file

    save_file({**load_file(file), "model.layers.0.mlp.act.scales": torch.ones(32)}, file, metadata={"format": "pt"})
    with pytest.raises(ConvertError, match=r"has no place for: model.layers.0.mlp.act.scales"):
        load(Source("hf-folder", tmp_path), Options())
