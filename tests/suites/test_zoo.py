"""Run a few models of the zoo by default, all of them with `long` (`python tests/suites/zoo.py`).

Each model runs in a process of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import zoo
from zoo_manifest import save
from zoo_worker import GAP, PASS

import convert
from convert.batch.plan import plan_tasks
from convert.batch.task_key import dependency_files

# The fastest models of four kinds: a CNN, a decoder with its cache, recurrent layers, sound.
CHOSEN = ("mobilenetv4_conv_small_035", "llama-past", "lstm-tagger", "conv-tasnet")
NAMES = zoo.entries()


@pytest.mark.slow
def test_a_sample_converts_and_verifies() -> None:
    found = [row for rows in zoo.outcomes([NAMES[name] for name in CHOSEN], ["onnx"]) for row in rows]
    assert len(found) == len(CHOSEN)
    assert [o for o in found if o.outcome != PASS] == []
    assert all(0 < o.ratio <= 4 for o in found)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_model_converts_and_verifies(name: str) -> None:
    ((*found,),) = zoo.outcomes([NAMES[name]], zoo.TARGETS)
    assert [o for o in found if o.outcome not in (PASS, GAP)] == []


@pytest.mark.slow
def test_it_is_a_manifest_for_batches(tmp_path: Path) -> None:
    """The manifest has models of transformers as folders, the others as weights and a factory, with the zoo's input
    specs.
    """
    manifest = save([NAMES["lstm-tagger"], NAMES["gpt2-past"]], tmp_path / "zoo")
    tasks = plan_tasks([str(manifest)], ["onnx", "tf", "caffe2"], tmp_path, {}, 60, None)
    assert [t.label for t in tasks] == [
        f"{n} → {t}" for n in ("lstm-tagger", "gpt2-past") for t in ("onnx", "tf", "caffe2")
    ]
    assert "zoo_manifest.py" in [path.name for path in dependency_files(tasks[0])]
    tagger, decoder = (
        convert.inspect(t.source, inputs=t.options["input"], model=t.options.get("model", "")) for t in tasks[::3]
    )
    assert [str(i) for i in tagger.inputs] == ["words: int64[batch,length]"]
    assert [i.name for i in decoder.inputs][:2] == ["input_ids", "past_key_values.0.key"]


def test_the_zoo_is_broad() -> None:
    """The zoo has at least forty models of every kind that it promises."""
    groups = {zoo.group(entry.family) for entry in NAMES.values()}
    assert len(NAMES) >= 40
    promised = {"timm", "transformers", "segmentation", "detection", "diffusion", "recurrent", "audio", "decoder step"}
    assert promised <= groups
