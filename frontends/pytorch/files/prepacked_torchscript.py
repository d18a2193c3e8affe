"""Rewrites TorchScript that `optimize_for_mobile` prepacked for XNNPACK, without XNNPACK's objects.

In such an archive the weights of a convolution or Linear are in an object of `torch.classes.xnnpack`, and an operator
`prepacked::…_run` computes the layer and clamps its result. Builds of PyTorch without XNNPACK do not load these. The
object's state is a tuple of what the layer has: weight, bias, strides and so on, and the two bounds. In the new archive
the tuple stands alone, and functions in TorchScript take the place of the operators.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from convert import limits
from convert.errors import BadInput, ResourceLimit
from convert.files.archives import copy_member, open_archive, read_member, read_members, record_root


@dataclass(frozen=True)
class _Layer:
    """A layer: its class, the types of its state between the bias and the bounds, and what it computes."""

    name: str
    settings: dict[str, str]
    computed: str

    @property
    def state(self) -> str:
        """The type of a state (aten/src/ATen/native/xnnpack/OpContext.h)."""
        parts = ["Tensor", "Optional[Tensor]", *self.settings.values(), "Optional[number]", "Optional[number]"]
        return f"Tuple[{', '.join(parts)}]"


_SIZES = dict.fromkeys(("stride", "padding", "dilation"), "List[int]") | {"groups": "int"}
_OUTPUT_SIZES = dict.fromkeys(("stride", "padding", "output_padding", "dilation"), "List[int]") | {"groups": "int"}
_LAYERS = {
    "linear": _Layer("Linear", {}, "torch.linear(x, W, B)"),
    "conv2d": _Layer("Conv2d", _SIZES, "torch.conv2d(x, W, B, stride, padding, dilation, groups)"),
    "conv2d_transpose": _Layer(
        "TransposeConv2d",
        _OUTPUT_SIZES,
        "torch.conv_transpose2d(x, W, B, stride, padding, output_padding, groups, dilation)",
    ),
}
"""The layers by the beginning of the names of their operators, `prepacked::conv2d_clamp_prepack` and `…_run`."""

_OPERATORS = "ops.prepacked."
_CLASSES = "__torch__.torch.classes.xnnpack."
_MODULE = "prepacked_layers"
_PLACE = f"code/__torch__/{_MODULE}.py"


def is_prepacked(path: Path) -> bool:
    """Return whether the code of a TorchScript archive calls layers that are packed for XNNPACK."""
    with open_archive(path) as archive:
        return any(_OPERATORS.encode() in code for code in _codes(archive).values())


def unpacked(path: Path, folder: Path) -> Path:
    """Return the path of a new archive in `folder`, like the one at `path` but without prepacked layers.

    Raises `BadInput` for a damaged pickle and for code in the place of the new functions, and `ResourceLimit`.
    """
    target = folder / path.name
    with open_archive(path) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        root = record_root(archive)
        codes = _codes(archive)
        if root + _PLACE in archive.namelist():
            raise BadInput(f"{path} has code of its own in {_PLACE}", hint="get the file again")
        pickles = {f"{root}data.pkl", f"{root}constants.pkl"}
        for name in archive.namelist():
            if name in codes:
                new.writestr(name, _rewritten_code(codes[name].decode("utf-8", "replace")))
            elif name in pickles:
                new.writestr(name, _rewritten_pickle(path, read_member(archive, name, limits.PICKLE_BYTES)))
            elif not name.endswith(("bytecode.pkl", ".debug_pkl")):  # places in the code that was
                copy_member(archive, name, new)
        new.writestr(root + _PLACE, "\n".join(_functions()) + "\n")
    return target


def _codes(archive: zipfile.ZipFile) -> dict[str, bytes]:
    return read_members(archive, ".py", limits.TORCHSCRIPT_CODE_BYTES, "of code")


def _rewritten_code(code: str) -> str:
    """Return code that names functions for the operators, and tuples for the objects."""
    for name, layer in _LAYERS.items():
        for step in ("run", "prepack"):
            code = code.replace(f"{_OPERATORS}{name}_clamp_{step}(", f"__torch__.{_MODULE}.{name}_{step}(")
        code = code.replace(f"{_CLASSES}{layer.name}OpContext", layer.state)
    return code


def _functions() -> Iterator[str]:
    """Yield the lines of the functions in place of the operators; the defaults are those of the operators."""
    for name, layer in _LAYERS.items():
        state = ", ".join(["W", "B", *layer.settings, "output_min", "output_max"])
        bias = "B: Optional[Tensor]" if layer.settings else "B: Optional[Tensor]=None"
        settings = [f"{setting}: {kind}" for setting, kind in layer.settings.items()]
        bounds = ["output_min: Optional[number]=None", "output_max: Optional[number]=None"]
        yield f"def {name}_prepack({', '.join(['W: Tensor', bias, *settings, *bounds])}) -> {layer.state}:"
        yield f"  return ({state})"
        yield f"def {name}_run(x: Tensor, layer: {layer.state}) -> Tensor:"
        yield f"  {state}, = layer"
        yield f"  y = {layer.computed}"
        yield "  if output_min is not None or output_max is not None:"
        yield "    y = torch.clamp(y, output_min, output_max)"
        yield "  return y"


def _rewritten_pickle(path: Path, data: bytes) -> bytes:
    """Return a pickle in which the state of each prepacked layer stands in the layer's place.

    PyTorch writes a layer as its class, an empty tuple, NEWOBJ, its state and BUILD.
    """
    kept: list[bytes] = []
    classes: set[object] = set()  # places in the memo that hold classes of layers
    inside, skipped, was_class = False, 0, False
    for name, argument, content in _opcodes(path, data):
        is_class = (name == "GLOBAL" and _is_layer(argument)) or (name == "BINGET" and argument in classes)
        if name in ("BINPUT", "LONG_BINPUT") and was_class:
            classes.add(argument)
        elif is_class and not inside:
            inside, skipped = True, 2  # the empty tuple and NEWOBJ
        elif inside and skipped:
            skipped -= 1
            if name not in ("EMPTY_TUPLE", "NEWOBJ"):
                raise BadInput(f"{path} has a prepacked layer without a state", hint="get the file again")
        elif inside and name == "BUILD":
            inside = False
        else:
            kept.append(content)
        was_class = is_class
    return b"".join(kept)


def _is_layer(argument: object) -> bool:
    place, _, name = str(argument).partition(" ")
    return f"{place}." == _CLASSES and name.removesuffix("OpContext") in {layer.name for layer in _LAYERS.values()}


def _opcodes(path: Path, data: bytes) -> Iterator[tuple[str, object, bytes]]:
    """Yield the opcodes of a pickle with their arguments and bytes."""
    try:
        found = [(code.name, argument, place) for code, argument, place in _counted(data)]
    except (ValueError, AttributeError, IndexError, KeyError) as error:
        raise BadInput(f"{path} has a damaged pickle: {error}", hint="get the file again") from None
    places = [int(place or 0) for _, _, place in found] + [len(data)]
    for (name, argument, _), begin, end in zip(found, places, places[1:], strict=False):
        yield name, argument, data[begin:end]


def _counted(data: bytes) -> Iterator[tuple[pickletools.OpcodeInfo, object, int | None]]:
    for count, row in enumerate(pickletools.genops(data)):
        if count > limits.PICKLE_OPCODES:
            raise ResourceLimit(f"a pickle has more than {limits.PICKLE_OPCODES:,} opcodes")
        yield row
