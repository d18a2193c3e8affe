"""`--dump-passes`: the graph after each pass, in files that onnx loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

import convert
from convert import plugin
from convert.cli import cli
from convert.errors import UsageError
from tests.support.onnx_support import array, info, model, run_ort

pytestmark = pytest.mark.not_core

ROOT = Path(__file__).resolve().parents[3]
MNIST = ROOT / "fixtures" / "mnist_cnn.onnx"


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.onnx"))


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (
            "onnx",
            "read clean assign_channels_first fold_batch_norms clean exact_probabilities write_inferred_shapes"
            " full_resize full_pads columns_for_vectors cast_for_kernels cast_bfloat16_islands gather_rows_of_strings"
            " write_kernel_shapes"
            " to_opset join_chained_scales keep_counted_places hoist_weights drop_unused_weights",
        ),
        (
            "caffe2",
            "read inline_functions drop_size_checks normalize_windows narrow_transforms name_resized_axes"
            " expand_unsupported narrow_products clean assign_channels_first fold_batch_norms clean",
        ),
        (
            "tf",
            "read enclose_gradients name_resized_axes normalize_windows expand_unsupported clean flatten_roots "
            "split_broadcasts find_response_norms fold_batch_norms fold_pads assign_channels_last join_transposes "
            "compose_transposes clean",
        ),
        (
            "keras",
            "read drop_size_checks name_resized_axes normalize_windows expand_unsupported clean unroll_loops clean "
            "flatten_roots repeat_operands "
            "settle_shapes clean find_response_norms fuse_attention clean assign_channels_last join_transposes "
            "compose_transposes clean fuse_dense",
        ),
        (
            "tflite",
            "read find_integer_products split_pools narrow_transforms enclose_gradients name_resized_axes "
            "normalize_windows expand_unsupported clean flatten_roots "
            "split_broadcasts find_response_norms fold_batch_norms fold_pads assign_channels_last join_transposes "
            "compose_transposes clean narrow_products order_depths reshape_to_check"
            " choose_builtins give_transposed_convolutions_a_bias",
        ),
    ],
)
def test_each_pass_leaves_a_graph(to: str, expected: str, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "dump"
    convert.convert(MNIST, to, tmp_path / f"out{plugin.formats()[to].suffix}", dump_passes=folder, verify=False)
    assert names(folder) == [f"{i:02}-{name}" for i, name in enumerate(expected.split())]
    for path in folder.glob("*.onnx"):
        assert onnx.load(path).graph.node


def test_a_dump_computes_what_the_model_does(tmp_path: Path) -> None:
    """A dump finds its weights in files that all dumps share."""
    dump = tmp_path / "dump"
    convert.convert(MNIST, "onnx", tmp_path / "m.onnx", dump_passes=dump, verify=False)
    feed = {"image": np.random.default_rng(0).normal(size=(2, 1, 28, 28)).astype(np.float32)}
    expected = run_ort(MNIST, feed)
    for path in dump.glob("*.onnx"):
        proto = onnx.load(path)
        proto.ir_version = 10
        for got, wanted in zip(run_ort(proto, feed), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=path.name)
    large = [w for w in onnx.load(MNIST).graph.initializer if len(w.raw_data) > 1024]
    assert len(list((dump / "weights").iterdir())) <= 2 * len(large)


def test_the_layout_asked_for_comes_first(tmp_path: Path) -> None:
    convert.convert(MNIST, "onnx", tmp_path / "m.onnx", layout="nhwc", dump_passes=tmp_path / "dump", verify=False)
    assert names(tmp_path / "dump")[:3] == ["00-read", "01-move_boundary", "02-clean"]
    shapes = [
        [d.dim_value for d in onnx.load(tmp_path / "dump" / f"{name}.onnx").graph.input[0].type.tensor_type.shape.dim]
        for name in ("00-read", "01-move_boundary")
    ]
    assert shapes == [[0, 1, 28, 28], [0, 28, 28, 1]]


def test_what_was_dumped_stays_where_a_backend_refuses(tmp_path: Path) -> None:
    mine = helper.make_node("Mine", ["x"], ["y"], domain="mine")
    other = model([mine], [info("x", [2])], [info("y", [2])], domains=["mine"])
    for to in ("caffe2", "tf"):
        for dry in (False, True):
            folder = tmp_path / f"{to}{dry}"
            with pytest.raises(convert.Unsupported):
                convert.convert(other, to, tmp_path / "out", dump_passes=folder, dry_run=dry)
            assert names(folder)[0] == "00-read"
            assert len(names(folder)) > 5
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("x")
    for folder, complaint in ((tmp_path / "full", "not empty"), (tmp_path / "full/mine.txt", "cannot be written")):
        with pytest.raises(UsageError, match=complaint):
            convert.convert(MNIST, "onnx", tmp_path / "m.onnx", dump_passes=folder, verify=False)
    assert not (tmp_path / "m.onnx").exists()
    (tmp_path / "empty").mkdir()
    convert.convert(MNIST, "onnx", tmp_path / "m.onnx", dump_passes=tmp_path / "empty", verify=False)
    assert names(tmp_path / "empty")


def test_the_command_line_has_it_too(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    args = [str(MNIST), "-o", str(tmp_path / "m.onnx"), "--no-verify", "--dump-passes", str(dump)]
    assert CliRunner().invoke(cli, args).exit_code == 0
    assert names(dump)[0] == "00-read"
    again = CliRunner().invoke(cli, [*args, "--force"])
    assert again.exit_code == 2
    assert "not empty" in again.stderr


def test_weights_of_every_dtype(tmp_path: Path) -> None:
    """Large and small ones, packed ones, text, and weights of a branch."""
    big = {
        "f": array("f", np.arange(600)),
        "h": array("h", np.arange(600), np.float16),
        "s": onnx.helper.make_tensor("s", onnx.TensorProto.STRING, [600], [b"long enough"] * 600),
        "q": onnx.helper.make_tensor("q", onnx.TensorProto.INT4, [3000], [1, -2, 3] * 1000),
    }
    out = [info("a", [600]), info("b", [600], 10), info("c", [600], 8), info("d", [3000], 22), info("e", [600])]
    inner = [helper.make_node("Add", ["f", "k"], ["r"])]
    branches = {
        name: helper.make_graph(inner, name, [], [info("r", [600])], [array("k", np.full(600, value))])
        for name, value in (("then_branch", 1), ("else_branch", 2))
    }
    nodes = [helper.make_node("Identity", [w], [o]) for w, o in zip("fhsq", "abcd", strict=True)]
    nodes.append(helper.make_node("If", ["x"], ["e"], **branches))
    proto = model(nodes, [info("x", [1], 9)], out, list(big.values()), opset=21, ir_version=10)
    convert.convert(proto, "onnx", tmp_path / "m.onnx", opset=21, dump_passes=tmp_path / "dump", dry_run=True)
    loaded = {w.name: w for w in onnx.load(tmp_path / "dump" / "00-read.onnx").graph.initializer}
    for name, weight in big.items():
        np.testing.assert_array_equal(
            onnx.numpy_helper.to_array(loaded[name]), onnx.numpy_helper.to_array(weight), err_msg=name
        )
