"""Lists the content of a file of weights, which needs no code."""

from __future__ import annotations

from collections import Counter

from convert.outcome.report import Report, Tensor
from convert.request.options import Options
from convert.request.source import Source

from .checkpoint import places_note, tensors_of
from .loader import ARCHIVES, check_archive, load_weights


def list_weights(source: Source, options: Options, report: Report) -> list[Tensor]:
    """Return the tensors of the likeliest dict of weights in the file, in order; notes list other dicts, and dtypes.

    Raises `BadInput` for a file without weights or a damaged one, `UnsafeInput` if tensors are not in the file.
    """
    if source.kind in ARCHIVES:
        check_archive(source.file, options, report)
    (place, state), *others = load_weights(source, options)
    tensors = tensors_of(state)
    if place:
        report.note(f"the weights are those under {place}", code="loaded-as")
    if others:
        listed = places_note(f"{where} ({len(tensors_of(more))})" for where, more in others)
        report.note(f"tensors are under these places too: {listed}", code="chosen-part")
    dtypes = Counter(str(t.dtype).removeprefix("torch.") for t in tensors.values() if t.is_floating_point())
    if set(dtypes) & {"float16", "bfloat16"}:
        usual = dtypes.most_common(1)[0][0]
        report.note(
            f"the weights are {', '.join(dtypes)}: inputs of the model are described as such, x:{usual}[…]",
            code="described-dtype",
        )
    report.parameters = sum(t.numel() for t in tensors.values() if t.is_floating_point())
    report.weight_bytes = sum(t.numel() * t.element_size() for t in tensors.values())
    return [Tensor(n, str(t.dtype).removeprefix("torch."), tuple(t.shape)) for n, t in tensors.items()]
