"""Judges outputs of a target with narrower numbers, as a whole and slice by slice.

Where only weights are narrow, the target agrees with the graph on the stored weights to the rounding of float32. Where
activations are rounded as well, an error of 8 bits is allowed, and four times that hides an output that is a twentieth
too large. But rounding has no direction: it cancels in the mean of a slice, and in its regression on the reference. So
the offset and scale of each slice may differ by what the same rounding does to them. Slices are the parts that the
graph joins (`joined_parts.py`), since boxes of hundreds of pixels hide probabilities, and the channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph.tensors import widened_array
from convert.graph.values import known_dims
from convert.parity.compare.joined_parts import find_parts, label_parts
from convert.parity.compare.outputs import FACTOR, Explain, compare
from convert.verdict import INCONCLUSIVE, OutputVerdict, Slice

_FACTOR = 6.0
"""So many standard deviations of what rounding does to a slice's offset and scale are allowed."""
_VARIES = 1e-6
"""A slice varies if its elements spread by more than this, relative to the largest of them."""
_SCARCE = 16
"""The noise of fewer samples is not known well."""
_FEW = 16
"""So many channels are listed."""

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class NarrowOutput:
    """One output on each feed."""

    exact: Arrays
    """Of the graph in float64."""
    rounded: Arrays
    """Of the graph with the weights and values of the target's format, in the dtype of the source."""
    targets: Arrays
    """Of the target."""
    stored: Arrays | None = None
    """Of the graph in float64 with the weights that the target stores, if their places are known."""


def compare_narrow(
    name: str, output: NarrowOutput, *, parts: bool = True, explain: Explain | None = None
) -> OutputVerdict:
    """Return the verdict on an output as a whole; its numbers are relative to the graph with none rounded.

    parts: as of `compare`. explain: what rounding does to the graph with the stored weights, where only those are
    narrow. INCONCLUSIVE where the bound is the output itself, so that agreement proves nothing.
    """
    result = compare(name, output.exact, output.rounded, output.targets, parts=parts)
    if output.stored is not None:
        found = compare(name, output.stored, output.rounded, output.targets, parts=parts, explain=explain)
        result.status, result.rounding, result.undecided = found.status, found.rounding, found.undecided
        result.reason = f"with the weights that the target stores, {found.reason}" if found.reason else ""
    if FACTOR * result.noise >= 1:
        result.lower(INCONCLUSIVE, f"narrower numbers alone move the output by {result.noise:.0%} of its size")
    return result


def judge_slices(
    row: OutputVerdict,
    model: ir.Model,
    value: ir.Value,
    feeds: Sequence[Mapping[str, np.ndarray]],
    output: NarrowOutput,
    *,
    roundoff: float,
) -> None:
    """Note the slices of an output in its verdict, in place, which is INCONCLUSIVE if one of them is wrong or lost.

    feeds: the inputs. roundoff: the relative error that a slice may have as a whole; with 0, scales and offsets are
    not looked at, since each element is.
    """
    arrays = [output.exact, output.stored or output.exact, output.rounded, output.targets]
    sides = [[widened_array(a) for a in each] for each in zip(*arrays, strict=True)]
    if any(a.dtype.kind != "f" or not a.ndim or a.shape != each[0].shape for each in sides for a in each):
        return
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
    wrong: list[tuple[float, str]] = []
    for names, sums in families:
        found = _Sums(*np.concatenate(sums, 1))
        row.slices += found.measured(names) if names[0] and len(names) <= _FEW else []
        wrong += found.systematic(names, roundoff, weights_known=output.stored is not None) if roundoff else []
    reasons += [max(wrong)[1]] if wrong else []
    if reasons:
        row.lower(INCONCLUSIVE, reasons[0])


def _finite(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return arrays with 0 wherever one of them is not finite."""
    finite = np.all([np.isfinite(a) for a in arrays], 0)
    return [a if finite.all() else np.where(finite, a, 0) for a in arrays]


def _parts(
    model: ir.Model, value: ir.Value, feeds: Sequence[Mapping[str, np.ndarray]]
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield each part that the graph joins to a value: what it is called, and a mask of its elements on each feed."""
    parts = find_parts(value)
    if len(parts) > 1:
        labels = [label_parts(model, value, parts, arrays) for arrays in feeds]
        for part in parts:
            yield f"the part of it that {part.value.name!r} gives", [which == part.number for which in labels]


def _lost(name: str, exact: np.ndarray, got: np.ndarray) -> Iterator[str]:
    """Say so where the target made a part one value that varies in the source."""
    if exact.size > 1 and (got == got[0]).all() and np.ptp(exact) > _VARIES * np.abs(exact).max():
        yield (
            f"{name}, {exact.size:,} elements, is {got[0]:.3g} everywhere in the target, and between {exact.min():.3g} "
            f"and {exact.max():.3g} in the source: one scale for all is too coarse for it; give it an output of its own"
        )


def _sums(sides: Sequence[np.ndarray], *, axis: int | None = None, mask: np.ndarray | None = None) -> list[np.ndarray]:
    """Return sums over the elements of each sample, [samples, slices] each, in the order of `_Sums`.

    sides: exact, stored, rounded and target on one feed. axis: that of the channels. mask: elements of a part.
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
    """Sums [samples, slices] of slices that are alike.

    drawn is what the simulated rounding does to the graph, apart how far the target is from that.
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
        """Return what is told of the slices."""
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
        """Yield how the scale or offset of a slice differs by more than rounding explains, and how many times.

        Rounded values err independently in each sample, rounded weights alike in all. If the weights are not known, the
        noise is therefore taken from the elements of a sample. What rounding does to all slices together is a floor.
        """
        samples, size = len(self.count), np.sqrt(self.stored2.sum(0) / self.count.sum(0))
        tiny = np.finfo(float).tiny
        for what, power, drawn, apart in (
            ("scale", self.stored2, self.drawn_stored, self.apart_stored),
            ("offset", self.count, self.drawn, self.apart),
        ):
            total = np.maximum(power.sum(0), tiny)
            if weights_known:
                noise = (drawn**2).sum(0) / total**2 * (1 + _SCARCE / samples)
            else:
                noise = self.drawn2.sum(0) / total * samples / self.count.sum(0)
            together = np.mean((drawn.sum(0) / total) ** 2)
            unit = np.maximum(np.sqrt(power.sum(0) / self.count.sum(0)), tiny) / np.maximum(size, tiny)
            allowed = (_FACTOR * np.sqrt(np.maximum(noise, together)) * unit + roundoff) * (size > 0)
            found = apart.sum(0) / total * unit
            worst = int(np.argmax((np.abs(found) - allowed) * (size > 0)))
            if size[worst] and abs(found[worst]) > allowed[worst]:
                yield (
                    abs(found[worst]) / allowed[worst],
                    (
                        f"the {what} of {names[worst] or 'it'} differs by {found[worst]:+.2%} of its size, where "
                        f"rounding explains {allowed[worst]:.2%}: a scale or zero point is wrong, values are clipped, "
                        "or the steps are too coarse"
                    ),
                )
