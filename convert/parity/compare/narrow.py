"""Judge outputs of a target with fewer bits, as a whole and slice by slice.

If only weights are narrow, the target agrees with the graph on the stored weights to the rounding of float32. If
activations are rounded too, an error of 8 bits is allowed. But a bound of four times that error would hide an output
that is 5 % too large.

Rounding has no direction, so it cancels in the mean of a slice and in its regression on the reference. The offset and
scale of each slice may therefore differ only by the effect of rounding on them. Slices are the channels, and the parts
that the graph joins (`joined_parts.py`), since boxes of hundreds of pixels hide probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.graph.values import known_dims
from convert.outcome.verdict import INCONCLUSIVE, Finding, OutputVerdict, Slice
from convert.parity.compare.joined_parts import find_parts, label_parts
from convert.parity.compare.outputs import BY_CHANCE, FACTOR, Explain, compare

_FACTOR = 6.0
"""Allowed offset and scale of a slice, in standard deviations of what rounding does to them."""
_VARIES = 1e-6
"""A slice varies if its elements spread by more than this, relative to its largest element."""
_SCARCE = 16
"""With fewer samples than this, the estimate of the noise is inaccurate."""
_FEW = 16
"""At most this many channels are listed."""

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class NarrowOutput:
    """One output on each set of inputs."""

    exact: Arrays
    """The graph's output in float64."""
    rounded: Arrays
    """The graph's output with the weights and values of the target's format, in the dtype of the source."""
    targets: Arrays
    """The target's output."""
    stored: Arrays | None = None
    """The graph's output in float64 with the weights that the target stores; None if their places are not known."""


def compare_narrow(
    name: str, output: NarrowOutput, *, parts: bool = True, explain: Explain | None = None
) -> OutputVerdict:
    """Return the verdict on an output as a whole, with errors relative to the graph without rounding.

    parts: as in `compare`. explain: estimates what rounding does to the graph with the stored weights, if only weights
    are narrow. The verdict is INCONCLUSIVE if the bound is as large as the output, or if all sets together have a few
    numbers only, because agreement then proves nothing.
    """
    result = compare(name, output.exact, output.rounded, output.targets, parts=parts, share_noise=True)
    if output.stored is not None:
        sides = output.stored, output.rounded, output.targets
        found = compare(name, *sides, parts=parts, explain=explain, share_noise=explain is None)
        reason = f"with the weights that the target stores, {found.reason}" if found.reason else ""
        judged = replace(result, status=found.status, reason=reason)
        result = replace(judged, rounding=found.rounding, undecided=found.undecided)
    if FACTOR * result.noise >= 1:
        reason = f"narrower numbers alone move the output by {result.noise:.0%} of its size"
        return result.after(Finding(INCONCLUSIVE, reason))
    count = sum(array.size for array in output.exact if array.dtype.kind not in "OUSbiu")
    if explain is None and 0 < count <= BY_CHANCE:
        reason = f"{count} numbers in all are too few to tell rounding from a defect: give more samples or inputs"
        return result.after(Finding(INCONCLUSIVE, reason))
    return result


def judge_slices(
    row: OutputVerdict,
    model: ir.Model,
    value: ir.Value,
    feeds: Sequence[Mapping[str, np.ndarray]],
    output: NarrowOutput,
    *,
    roundoff: float,
) -> OutputVerdict:
    """Return the verdict on an output with its slices: INCONCLUSIVE if one of them is wrong or became constant.

    feeds: the sets of inputs. roundoff: the relative error that a slice may have as a whole; with 0, scales and offsets
    are not checked, because each element is.
    """
    arrays = [output.exact, output.stored or output.exact, output.rounded, output.targets]
    sides = [[widened_array(a) for a in each] for each in zip(*arrays, strict=True)]
    if any(a.dtype.kind != "f" or not a.ndim or a.shape != each[0].shape for each in sides for a in each):
        return row
    sides = [_finite(each) for each in sides]
    reasons: list[str] = []
    families = [([""], [_sums(each) for each in sides])]
    try:
        for name, masks in _parts(model, value, feeds):
            families.append(([name], [_sums(each, mask=mask) for each, mask in zip(sides, masks, strict=True)]))
            reasons += _lost(name, *(np.concatenate([each[i][m] for each, m in zip(sides, masks, strict=True)])
                                     for i in (0, 3)))  # fmt: skip
    except ConvertError as error:
        reasons.append(f"its joined parts could not be told apart ({error.message})")
    for axis, size in enumerate(known_dims(value) or ()):
        if axis and isinstance(size, int) and size > 1 and output.stored is not None:
            names = [f"channel {i} of axis {axis}" for i in range(size)]
            families.append((names, [_sums(each, axis=axis) for each in sides]))
    wrong, slices = list[tuple[float, str]](), list(row.slices)
    for names, sums in families:
        found = _Sums(*np.concatenate(sums, 1))
        slices += found.measured(names) if names[0] and len(names) <= _FEW else []
        wrong += found.systematic(names, roundoff, weights_known=output.stored is not None) if roundoff else []
    reasons += [max(wrong)[1]] if wrong else []
    row = replace(row, slices=slices)
    return row.after(Finding(INCONCLUSIVE, reasons[0])) if reasons else row


def _finite(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays with 0 at every place where one of them is not finite."""
    finite = np.all([np.isfinite(a) for a in arrays], 0)
    return [a if finite.all() else np.where(finite, a, 0) for a in arrays]


def _parts(
    model: ir.Model, value: ir.Value, feeds: Sequence[Mapping[str, np.ndarray]]
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield each part that the graph joins to a value: its description, and a mask of its elements for each feed."""
    parts = find_parts(value)
    if len(parts) > 1:
        labels = [label_parts(model, value, parts, arrays) for arrays in feeds]
        for part in parts:
            yield f"the part of it that {part.value.name!r} gives", [which == part.number for which in labels]


def _lost(name: str, exact: np.ndarray, got: np.ndarray) -> Iterator[str]:
    """Yield a message if a part has one value in the target and varies in the source."""
    if exact.size > 1 and (got == got[0]).all() and np.ptp(exact) > _VARIES * np.abs(exact).max():
        yield (
            f"{name}, {exact.size:,} elements, is {got[0]:.3g} everywhere in the target, and between {exact.min():.3g} "
            f"and {exact.max():.3g} in the source: one scale for all is too coarse for it; give it its own output, "
            "or compute what joins the parts in floats (tflite: --keep-float Concat)"
        )


def _sums(sides: Sequence[np.ndarray], *, axis: int | None = None, mask: np.ndarray | None = None) -> list[np.ndarray]:
    """Return sums over the elements of each sample, each [samples, slices], in the order of the fields of `_Sums`.

    sides: exact, stored, rounded and target output on one feed. axis: axis of the channels. mask: elements of a part.
    """
    exact, stored, rounded, got = sides
    over = tuple(i for i in range(1, exact.ndim) if i != axis)

    def total(array: np.ndarray) -> np.ndarray:
        kept = array if mask is None else np.where(mask, array, 0)
        return kept.sum(over).reshape(len(array), -1)

    drawn, apart, error = rounded - stored, got - rounded, got - exact
    arrays = (
        np.ones(exact.shape),
        exact**2,
        error**2,
        stored,
        stored**2,
        drawn,
        drawn * stored,
        drawn**2,
        apart,
        apart * stored,
    )
    return [total(array) for array in arrays]


@dataclass(frozen=True)
class _Sums:
    """Sums [samples, slices] of slices of the same kind.

    `drawn` is what the simulated rounding changes in the graph; `apart` is the target's distance from that result.
    """

    count: np.ndarray
    exact2: np.ndarray
    error2: np.ndarray
    stored: np.ndarray
    stored2: np.ndarray
    drawn: np.ndarray
    drawn_stored: np.ndarray
    drawn2: np.ndarray
    apart: np.ndarray
    apart_stored: np.ndarray

    def measured(self, names: Sequence[str]) -> list[Slice]:
        """Return size, SQNR, scale and offset of each slice."""
        sums = {name: array.sum(0) for name, array in vars(self).items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            sqnr = 10 * np.log10(np.where(sums["error2"] > 0, sums["exact2"] / sums["error2"], np.inf))
            slope = 1 + (sums["drawn_stored"] + sums["apart_stored"]) / sums["stored2"]
            offset = (sums["drawn"] + sums["apart"]) / np.sqrt(sums["count"] * sums["stored2"])
        rows = zip(
            names, sums["count"], sqnr, np.where(sums["stored2"] > 0, slope, 1), np.nan_to_num(offset), strict=True
        )
        return [Slice(name, int(size), *map(float, rest)) for name, size, *rest in rows]

    def systematic(self, names: Sequence[str], roundoff: float, *, weights_known: bool) -> Iterator[tuple[float, str]]:
        """Yield the ratio to the bound, and a text, for scales and offsets that differ by more than rounding explains.

        Rounding errors of values are independent between samples; rounding errors of weights are the same in all
        samples. If the weights are not known, the noise is therefore estimated from the elements of a sample. The noise
        is never below the effect of rounding on all slices together.
        """
        samples, size = len(self.count), np.sqrt(self.stored2.sum(0) / self.count.sum(0))
        tiny = np.finfo(float).tiny
        for what, power, drawn, apart in (
            ("scale", self.stored2, self.drawn_stored, self.apart_stored),
            ("offset", self.count, self.drawn, self.apart),
        ):
            total = np.where(power.sum(0) > tiny, power.sum(0), 1.0)  # slices of zeros have no scale
            if weights_known:
                noise = ((drawn / total) ** 2).sum(0) * (1 + _SCARCE / samples)
            else:
                noise = self.drawn2.sum(0) / total * samples / np.maximum(self.count.sum(0), 1)
            together = np.mean((drawn.sum(0) / total) ** 2)
            unit = np.maximum(np.sqrt(power.sum(0) / np.maximum(self.count.sum(0), 1)), tiny) / np.where(
                size > 0, size, 1
            )
            allowed = (_FACTOR * np.sqrt(np.maximum(noise, together)) * unit + roundoff) * (size > 0)
            found = apart.sum(0) / total * unit
            worst = int(np.argmax((np.abs(found) - allowed) * (size > 0)))
            if size[worst] and abs(found[worst]) > allowed[worst]:
                where = f"the {what} of {names[worst]}" if names[worst] else f"the {what}"
                of_what = "" if what == "scale" else " of the output's size"
                text = (
                    f"{where} is off by {found[worst]:+.2%}{of_what}, and rounding explains {allowed[worst]:.2%}: "
                    "a scale or zero point is wrong, values are clipped, or the steps are too coarse"
                )
                yield abs(found[worst]) / allowed[worst], text
