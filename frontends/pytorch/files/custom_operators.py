"""Declares custom operators that a file names but nobody has registered, so that the file can be read.

Only the rules need them, by name and schema. An installed package registers its own, and then the source can be run as
well.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from contextlib import suppress

import torch

from ..torch_internals import QUANTIZED_DECOMPOSED, schemas_of_operator

_PACKAGES = {
    "quantized_decomposed": QUANTIZED_DECOMPOSED,
    "torchvision": "torchvision",
    "torchao": "torchao",
    "torchaudio": "torchaudio",
}
"""The packages that register the operators of a namespace; only these are imported, and only if a file names them."""

_REGION = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_BLOCKS = "SymInt[] block_size, Tensor scale, Tensor? zero_point"
_RANGE = "Scalar? quant_min=None, Scalar? quant_max=None"
_SCHEMAS = {
    "torchao::quantize_affine": f"quantize_affine(Tensor input, {_BLOCKS}, ScalarType output_dtype, {_RANGE}) "
    "-> Tensor",
    "torchao::dequantize_affine": f"dequantize_affine(Tensor input, {_BLOCKS}, ScalarType input_dtype, {_RANGE}, "
    "ScalarType output_dtype=6) -> Tensor",
    "torchao::choose_qparams_affine": "choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, "
    f"ScalarType target_dtype, {_RANGE}, float? eps=None, ScalarType? scale_dtype=None, "
    "ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)",
    "torchvision::nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::roi_align": f"roi_align({_REGION}, int sampling_ratio, bool aligned) -> Tensor",
    "torchvision::ps_roi_align": f"ps_roi_align({_REGION}, int sampling_ratio) -> (Tensor, Tensor)",
    "torchvision::roi_pool": f"roi_pool({_REGION}) -> (Tensor, Tensor)",
    "torchvision::ps_roi_pool": f"ps_roi_pool({_REGION}) -> (Tensor, Tensor)",
    "torchvision::deform_conv2d": "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
}
"""The schemas of torchvision's and torchao's operators that have rules."""

_libraries: dict[str, torch.library.Library] = {}


def declare_operators(names: Iterable[str]) -> list[str]:
    """Declare the operators `names` to PyTorch, such as `torchvision::nms`; return those that stay unknown.

    A declaration lasts as long as the process, because PyTorch's operators cannot be unregistered safely.
    """
    missing = sorted({name for name in names if not _is_known(name)})
    for package in sorted({_PACKAGES[n] for n in map(_namespace, missing) if n in _PACKAGES}):
        if _is_installed(package):
            with suppress(Exception):  # a broken installation counts as a missing one
                importlib.import_module(package)
    for name in missing:
        if not _is_known(name) and name in _SCHEMAS:
            namespace = _namespace(name)
            if namespace not in _libraries:
                _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
            _libraries[namespace].define(_SCHEMAS[name])
    return [name for name in missing if not _is_known(name)]


def _namespace(name: str) -> str:
    return name.partition("::")[0]


def _is_known(name: str) -> bool:
    """Return whether PyTorch has an operator. It knows those of `prim` itself, some by names that archives of PyTorch
    1.4 and before use and that no schema has (`prim::shape`), and says so of others.
    """
    return _namespace(name) == "prim" or bool(schemas_of_operator(name))


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
