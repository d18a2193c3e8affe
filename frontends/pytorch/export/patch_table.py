"""Everything that replaces functions of PyTorch, transformers and torchvision while a module is loaded or captured.

A row says what is replaced, by what, and why; `patches/patch.py` explains its fields. Rows of one stage are applied in
order, and a later one wraps an earlier one with the same target. If a release moves a target, change it here: the row
gets the new name, or `until`. `tests/frontends/pytorch/export/test_patch_table.py` reports which rows the installed
releases do not fit.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..common.modes import watch_seeds
from ..common.state import track_assignments
from ..torch_internals import math_attention
from .capture.guards import record_size_messages
from .decisions.branches import record_branches
from .decisions.on_data import deciding
from .patches.libraries import detectors, diffusion, experts, state_space
from .patches.libraries.attention import attention_of_any_length, no_mask_without_padding
from .patches.libraries.sound_codecs import pads_as_numbers
from .patches.patch import Need, Patch, Put, Stage, Within, Wrap, in_place
from .patches.pytorch import adaptive, derivatives, matrix_checks
from .patches.pytorch.attention import declared_causal, equal_lengths_of_keys_and_values
from .patches.pytorch.checks import without_checks
from .patches.pytorch.copies import without_choices_of_place
from .patches.pytorch.lengths import symbolic_lengths
from .patches.pytorch.module_casts import casts_that_change_something
from .patches.pytorch.padded_sizes import short_quotients
from .patches.pytorch.pools import infer_line_pools
from .patches.pytorch.replacements import CaptureReplacements
from .patches.pytorch.size_keys import keys_reported
from .patches.pytorch.size_texts import formatted_number, operators_of_bool, text_of_number
from .patches.pytorch.whole_rnn import infer_rnn_shapes
from .patches.speed import compiled_graphs, fast_shapes, stack_frames
from .patches.speed.elementwise import infer_elementwise
from .patches.speed.field_types import types_looked_up_once
from .patches.speed.no_cache import without_cache
from .patches.speed.repeats import repeated_blocks
from .patches.speed.weights_as_described import without_watchers

_SHAPES = "torch.fx.experimental.symbolic_shapes"
_TRANSFORMERS = "5.24"
_TORCHVISION = "0.28, 0.29"
_DIFFUSERS = "0.42"


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing; replaces a function that only prints."""


TABLE = (
    Patch(
        Stage.LOAD,
        ("torch._export.serde.serialize.typing",),
        Wrap(types_looked_up_once),
        why="the types of a class's fields are looked up for each object: half the time to read a program",
        need=Need.TIME,
    ),
    Patch(
        Stage.MESSAGES,
        (f"{_SHAPES}.uninteresting_files",),
        Within(record_size_messages),
        why="torch.export tells in its log alone which line fixed a dim, and would name one of ours",
    ),
    # -- what is written down of a capture ---------------------------------------------------------------------------
    Patch(
        Stage.WATCH,
        (f"{_SHAPES}.ShapeEnv.evaluate_expr", f"{_SHAPES}.ShapeEnv.evaluate_sym_node",
         f"{_SHAPES}.ShapeEnv._is_python_assert"),
        Within(without_checks),
        why="a condition on data that only decides whether an exception is raised is no part of the result; it comes "
        "before branches are recorded, which looks at who asks",
        upstream="https://github.com/pytorch/pytorch/issues/134533",
    ),
    Patch(
        Stage.WATCH,
        ("torch.nn.Module.register_buffer",),
        Within(track_assignments, ("module",)),
        why="torch.export drops buffers that forward assigns to, without a word",
    ),
    Patch(
        Stage.WATCH,
        (f"{_SHAPES}.ShapeEnv.evaluate_expr",),
        Within(record_branches),
        why="torch.export takes the example's way of a decision on sizes, and keeps of it a guard at most",
    ),
    Patch(
        Stage.WATCH,
        ("torch.manual_seed", "torch.random.manual_seed"),
        Within(watch_seeds),
        why="a seed that forward sets is no operator, and would change the generator of whoever converts",
    ),
    Patch(
        Stage.WATCH,
        (),
        Within(pads_as_numbers, ("module",)),
        why="the codecs of sound pad by tensors of one integer, on which forward decides: the method "
        "_get_extra_padding_for_conv1d is replaced in each layer that has it",
        library="transformers",
        releases=_TRANSFORMERS,
    ),
    Patch(
        Stage.WATCH,
        (),
        Within(diffusion.sizes_handed_on, ("module",)),
        why="a UNet decides on the sizes of a sample whether its upsamplers get the sizes of the skip connections: its "
        "attribute num_upsamplers is replaced, so that they always do",
        need=Need.MODELS,
        library="diffusers",
        releases=_DIFFUSERS,
    ),
    # -- functions that torch.export cannot capture ------------------------------------------------------------------
    Patch(
        Stage.CAPTURE,
        (),
        Within(CaptureReplacements),
        why="functions that look at data are written with others; a public mode of torch.overrides sees them",
    ),
    Patch(
        Stage.CAPTURE,
        ("diffusers.models.upsampling.Upsample2D.forward",),
        Put(diffusion.upsample),
        why="it decides on the number of elements whether it copies them to another memory layout",
        need=Need.MODELS,
        library="diffusers",
        releases=_DIFFUSERS,
        where_imported=True,
    ),
    *(
        Patch(
            Stage.CAPTURE,
            (f"torchvision.{place}",),
            Put(function),
            why="a detector asks whether there are boxes, and goes through them one by one",
            need=Need.MODELS,
            library="torchvision",
            releases=_TORCHVISION,
            upstream="https://github.com/pytorch/pytorch/issues/108805",
            where_imported=True,
        )
        for place, function in (
            ("ops.boxes._batched_nms_coordinate_trick", detectors.batched_nms),
            ("ops.boxes._batched_nms_vanilla", detectors.batched_nms),
            ("models.detection.roi_heads.paste_masks_in_image", detectors.paste_masks),
            ("models.detection.roi_heads.heatmaps_to_keypoints", detectors.heatmaps_to_keypoints),
            ("models.detection.transform.paste_masks_in_image", detectors.paste_masks),
        )
    ),
    *(
        Patch(
            Stage.CAPTURE,
            (f"torch.nn.attention.flex_attention.{name}",),
            Put(value),
            why="the captured operator has its score_mod as a program of single numbers; PyTorch's own formula for "
            "where nothing is compiled maps it over the places of the scores",
            where_imported=True,
        )
        for name, value in (
            ("flex_attention_hop", math_attention),
            ("_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True),
        )
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.nn.modules.adaptive.AdaptiveLogSoftmaxWithLoss.predict",),
        Put(adaptive.predict),
        why="it asks the data which clusters there are rows of",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.nn.modules.adaptive.AdaptiveLogSoftmaxWithLoss.forward",),
        Put(adaptive.forward),
        why="it asks the data which clusters there are targets of",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.nn.modules.transformer._detect_is_causal_mask",),
        Put(declared_causal),
        why="the layers ask whether a mask happens to be causal, to choose a faster kernel for the same numbers",
        upstream="https://github.com/pytorch/pytorch/pull/91171",
    ),
    *(
        Patch(
            Stage.CAPTURE,
            (f"torch.distributions.constraints.{name}.check",),
            Put(check),
            why="a constraint on matrices looks at its data to leave the rest out",
            upstream="https://github.com/pytorch/pytorch/issues/135061",
        )
        for name, check in (
            ("_Symmetric", matrix_checks.is_symmetric),
            ("_PositiveDefinite", matrix_checks.is_positive_definite),
            ("_PositiveSemidefinite", matrix_checks.is_positive_semidefinite),
        )
    ),
    *(
        Patch(
            Stage.CAPTURE,
            (f"transformers.models.*.{name}",),
            Wrap(state_space.scan_of_any_length(recurrence, place)),
            why="a Python loop over tokens or over chunks of tokens is written out for one length",
            need=Need.MODELS,
            library="transformers",
            releases=_TRANSFORMERS,
        )
        for name, recurrence, place in (
            ("mamba_selective_scan", state_space.selective_scan, 2),
            ("mamba2_chunk_scan", state_space.chunk_scan, 1),
            ("torch_chunk_gated_delta_rule", state_space.gated_delta_rule, 1),
            ("chunk_kimi_delta_attention", state_space.gated_delta_rule, 1),
        )
    ),
    Patch(
        Stage.CAPTURE,
        ("transformers.models.minimax.modeling_minimax.MiniMaxLightningAttention.forward",),
        Wrap(state_space.scan_of_any_length(state_space.lightning_attention, 1, "hidden_states")),
        why="a Python loop over tokens or over blocks of tokens is written out for one length",
        need=Need.MODELS,
        library="transformers",
        releases=_TRANSFORMERS,
        where_imported=True,
    ),
    Patch(
        Stage.CAPTURE,
        ("transformers.models.*.create_recurrent_attention_mask",),
        Wrap(state_space.mask_of_any_length),
        why="no token is masked that is alone, which a program of many lengths has to decide by the length",
        need=Need.MODELS,
        library="transformers",
        releases=_TRANSFORMERS,
    ),
    Patch(
        Stage.CAPTURE,
        ("transformers.masking_utils._ignore_bidirectional_mask_sdpa",),
        Wrap(no_mask_without_padding),
        why="a capture makes a mask that masks nothing, which Autoformer adds to scores of another shape",
        need=Need.MODELS,
        library="transformers",
        releases=_TRANSFORMERS,
        where_imported=True,
    ),
    *(
        Patch(
            stage,
            (f"transformers.models.jetmoe.modeling_jetmoe.{name}.forward",),
            Put(function),
            why="it makes a Python list of how many rows each expert has",
            need=Need.MODELS,
            library="transformers",
            releases=_TRANSFORMERS,
            where_imported=True,
        )
        for stage in (Stage.CAPTURE, Stage.CACHE_SIZES)
        for name, function in (
            ("JetMoeTopKGating", experts.sorted_by_expert),
            ("JetMoeParallelExperts", experts.rows_in_groups),
        )
    ),
    Patch(
        Stage.CAPTURE,
        ("torch._functorch.eager_transforms._jvp_with_argnums",),
        Put(derivatives.jvp),
        why="forward mode keeps the tangent where a capture does not see it",
        upstream="https://github.com/pytorch/pytorch/pull/179686",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch._functorch.eager_transforms.jacfwd",),
        Put(derivatives.jacfwd),
        why="hessian calls it, and forward mode by two backward ones inside of another fixes sizes",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch._functorch.eager_transforms._chunked_standard_basis_for_",),
        Put(derivatives.unit_vectors),
        why="unit vectors are written to a diagonal in place, which fails under vmap",
    ),
    Patch(
        Stage.CAPTURE,
        (),
        Within(symbolic_lengths, ("module",)),
        why="Python's len and isinstance make numbers of sizes: names in the files of the module hide them",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.nn.Module.to",),
        Wrap(casts_that_change_something),
        why="a cast to the dtype that a layer has exchanges its weights all the same",
    ),
    Patch(
        Stage.CAPTURE,
        (f"{_SHAPES}.ShapeEnv.evaluate_expr",),
        Wrap(without_choices_of_place),
        why="a condition on sizes that only leads to x = x.contiguous() would bound a dim",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.export._trace.print",),
        Put(_nothing),
        why="torch.export prints what it had captured before it failed, which its error says in a line",
    ),
    *(
        row
        for kind, number in (("SymInt", int), ("SymFloat", float), ("SymBool", bool))
        for row in (
            Patch(
                Stage.CAPTURE,
                (f"torch.{kind}.__repr__",),
                Wrap(text_of_number(number)),
                why="the text of a size is the name of a symbol, which a key or a comparison would go by",
            ),
            Patch(
                Stage.CAPTURE,
                (f"torch.{kind}.__format__",),
                Put(formatted_number(number)),
                why="the same for a text with a format",
            ),
        )
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.SymBool.__eq__",),
        Within(operators_of_bool),
        why="conditions on sizes lack operators of bool, or compare as expressions of sympy, which raises",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.backends.opt_einsum.flags",),
        # This is a setting and no function; it is here because the table determines the order.
        Within(lambda: torch.backends.opt_einsum.flags(enabled=False)),
        why="opt_einsum compares sizes, and the capture would hold for these sizes only",
    ),
    Patch(
        Stage.CAPTURE,
        ("torch._meta_registrations.div_rtn",),
        Put(operator.floordiv),
        why="the shape of a pool asks whether there is a remainder, and the capture would hold for odd sizes only",
        need=Need.MODELS,
        until="2.12",
    ),
    # -- what takes long -----------------------------------------------------------------------------------------------
    Patch(
        Stage.CAPTURE,
        ("torch.ops.aten.linear.default", "torch.ops.aten.layer_norm.default", "torch.ops.aten.batch_norm.default"),
        Within(fast_shapes.infer_layer_shapes),
        why="a layer is taken apart into operators for a shape that is plain to see: a quarter of reading BERT",
        need=Need.TIME,
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.fx.experimental.sym_node.SymNode.int_floordiv",),
        Wrap(short_quotients),
        why='each layer with padding "same" makes the expression of a dynamic size several times as long',
        need=Need.TIME,
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.fx.experimental.proxy_tensor._extract_tensor_metadata",),
        Put(fast_shapes.no_description),
        why="every value is described a second time, which nothing here reads",
        need=Need.TIME,
    ),
    Patch(
        Stage.CAPTURE,
        ("torch._subclasses.fake_tensor.FakeTensorConverter.from_real_tensor",),
        Wrap(without_watchers),
        why="each mode intercepts fifty queries for every weight: a tenth of the time to read ResNet-50",
        need=Need.TIME,
    ),
    Patch(
        Stage.CAPTURE,
        ("torch._subclasses.fake_tensor.FakeTensorMode._cached_dispatch_impl",),
        Wrap(without_cache),
        why="for each new call, an entry is made and checked, which takes as long as the inference",
        need=Need.TIME,
    ),
    Patch(
        Stage.CAPTURE,
        ("torch._subclasses.fake_tensor.FakeTensorMode._cached_dispatch_impl",),
        Wrap(infer_elementwise),
        why="elementwise operators on symbolic sizes are decomposed for a shape that one of their inputs has",
        need=Need.TIME,
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.fx.proxy.CapturedTraceback",),
        Put(stack_frames.ModelFrames),
        why="PyTorch looks up the text of all frames of each operator's stack",
        need=Need.TIME,
    ),
    Patch(
        Stage.CAPTURE,
        ("torch.fx.proxy.TracerBase._filter_traceback_frames",),
        Put(stack_frames.all_frames),
        why="the short stacks have the frames of layers, which the filter would leave out",
        need=Need.TIME,
    ),
    *(
        Patch(
            stage,
            ("torch.fx.GraphModule.recompile",),
            Wrap(compiled_graphs.when_read),
            why="each change of a graph writes and compiles its code, of which most never runs",
            need=Need.TIME,
        )
        for stage in (Stage.CAPTURE, Stage.DECOMPOSITIONS, Stage.RUNNABLE)
    ),
    # -- sizes that would be fixed -----------------------------------------------------------------------------------
    Patch(
        Stage.LENGTHS,
        tuple(f"torch.ops.aten.{name}.input" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
        Within(infer_rnn_shapes),
        why="a recurrent layer is taken apart step by step for its shape alone, which fixes the number of steps",
        upstream="https://github.com/pytorch/pytorch/issues/115092",
    ),
    Patch(
        Stage.LENGTHS,
        ("torch.ops.aten.max_pool1d.default",),
        Within(infer_line_pools),
        why="its kernel computes the length as a number, which holds the program to the example's",
        upstream="https://github.com/huggingface/transformers/pull/47617",
    ),
    Patch(
        Stage.LENGTHS,
        ("torch.ops.aten.scaled_dot_product_attention.default",),
        Within(equal_lengths_of_keys_and_values),
        why="the lengths of keys and values are treated as different: in four dims by 2.13, in three too by 2.14",
    ),
    Patch(
        Stage.BLOCKS,
        tuple(f"torch.fx.experimental.proxy_tensor._ModuleStackTracer.{name}" for name in ("call_module", "trace")),
        Within(repeated_blocks, ("module", "only_decisions")),
        why="blocks that are alike are captured once and written again",
        need=Need.TIME,
    ),
    Patch(
        Stage.GRADIENTS,
        ("torch._library.simple_registry.singleton",),
        Within(matrix_checks.singular_matrices_without_effect),
        why="what raises for a singular matrix is an effect, which torch.export threads through the program",
    ),
    Patch(
        Stage.DECOMPOSITIONS,
        ("torch.export.exported_program._remove_unnecessary_copy_op_pass",),
        Put(lambda module, signature: (module, signature)),
        why="a copy that is a buffer's last write is removed even if it broadcasts or casts what it copies",
        upstream="https://github.com/pytorch/executorch/issues/7515",
    ),
    Patch(
        Stage.TRACE,
        ("torch.Tensor.__hash__",),
        Within(keys_reported, ("ask",)),
        why="torch.jit.trace warns of sizes that Python uses as numbers, but not as keys, whose record is of one size",
    ),
    Patch(
        Stage.DECISIONS,
        (f"{_SHAPES}.ShapeEnv.evaluate_sym_node",),
        Within(deciding, ("path",)),
        why="a decision on data is refused; here it is answered, and marked in the graph",
    ),
    # -- models of transformers with a cache -------------------------------------------------------------------------
    Patch(
        Stage.CACHE,
        ("transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS",),
        Within(attention_of_any_length),
        why="a single query takes another way than many, for a faster kernel and the same numbers",
        library="transformers",
        releases=_TRANSFORMERS,
    ),
    Patch(
        Stage.CACHE_SIZES,
        ("transformers.integrations.moe._can_use_grouped_mm",),
        Put(lambda *_: False),
        why="PyTorch's grouped product has unknown sizes in bfloat16 only, which transformers knows of captures",
        need=Need.MODELS,
        library="transformers",
        releases=_TRANSFORMERS,
        where_imported=True,
    ),
)  # fmt: skip


def patched(stage: Stage, **given: Any) -> AbstractContextManager[Mapping[Any, Any]]:
    """Apply the patches of a stage; `given` are the arguments of their context managers.

    The context's value maps each context manager to what it yields. Raises `Unsupported` if an installed release lacks
    the target of a patch that the result depends on.
    """
    return in_place((row for row in TABLE if row.stage is stage), **given)
