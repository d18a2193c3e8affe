"""Estimate what rounding does to each element of an output, and decide whether it explains a difference.

The shared graph is evaluated in float64 with random rounding errors (`convert/reference/monte_carlo.py`). They are
`TIMES` times as large as those of the dtypes of its values. As a rule there are `RUNS` runs. The difference of an
element is explained by rounding if the element moves as far in these runs. This covers NaN and infinities too, and the
results of comparisons and the picked indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.activity import doing, limited_time
from convert.errors import ConvertError, ResourceLimit
from convert.graph.tensors import ROUNDOFF, nonfinite_kinds, widened_array
from convert.graph.values import MOVES
from convert.parity.inputs.feeds import Feed
from convert.parity.magnitudes import rms

TIMES = 8.0
"""Factor by which the simulated rounding errors exceed those of the dtypes, in standard deviations."""
MIN_RUNS, RUNS, MAX_RUNS = 2, 8, 32
"""Number of runs: at first, as a rule, and where something smaller than rounding decides."""
_SINGLE = 0.75
"""Allowed error of a single element, in units of the rms of its moves, which are `TIMES` too large."""
_STEP = 16.0
"""Rounding decides an element if its largest move exceeds this many times the move at its lower quartile."""
_HOPELESS = 100.0
"""More runs do not explain an error of this many times the largest move in the first runs."""
RMS = 1 / 3
"""Largest rms of errors, in units of the largest moves; a standard deviation is a twelfth of these."""
UNDECIDED = 0.1
"""Agreement proves nothing if a standard deviation of rounding exceeds this share; but see `AGREEMENT_SHARE`."""
AGREEMENT_SHARE = 1e-3
"""If source and target agree to this share of the output, the agreement counts in spite of `UNDECIDED`."""
_UNSEEN = 0.25
"""Largest share of the differing steps that may flip in none of the runs."""
_LATTICE = 1e-4
"""Relative tolerance for multiples of a step, which float32 represents inexactly."""
_LEAST = {name: float(ml_dtypes.finfo(name).tiny) for name in ROUNDOFF}
"""Smallest normal number of each dtype."""
_TINY = float(np.finfo(np.float64).tiny)
_PICKING = frozenset(("ArgMax", "ArgMin", "TopK", "NonMaxSuppression"))
SECONDS = 60.0
"""Time limit for the runs on one set of inputs."""
FLOAT64 = ROUNDOFF["float64"]
"""Unit roundoff of float64, for comparing the graph with the source in float64."""


@dataclass(frozen=True)
class Explained:
    """Whether rounding explains all differences of an output; if not, `reason` names one that it does not explain.

    share: a standard deviation of rounding, relative to the rms of the whole output. undecided: why rounding decides so
    much of the output that agreement proves nothing, or ''. far_beyond: the difference is far larger than rounding, so
    more runs are not needed.
    """

    reason: str = ""
    share: float = 0.0
    undecided: str = ""
    far_beyond: bool = False


@dataclass(frozen=True)
class NoisyRuns:
    """One output of the graph in float64: without rounding errors (exact), and with them (runs)."""

    exact: np.ndarray
    runs: Sequence[np.ndarray]
    steps: bool = False
    """Whether its integers are quantization steps."""
    in_steps: bool = False
    """Whether integer kernels compute it, so that its numbers move by steps."""

    @property
    def changes_shape(self) -> bool:
        """Return whether rounding decides how many elements there are."""
        return any(run.shape != self.exact.shape for run in self.runs)

    @property
    def decides(self) -> bool:
        """Return whether some elements move in some runs only, as numbers that are rounded to a step do."""
        if self.changes_shape or self.exact.dtype.kind in "OUS":
            return False
        with np.errstate(invalid="ignore"):  # infinities have no distance
            moves = np.stack([_wide(run) for run in self.runs]) - _wide(self.exact)
        return bool(are_decided(np.where(np.isfinite(moves), moves, 0)).any())

    def explain(
        self,
        reference: np.ndarray,
        got: np.ndarray,
        source: np.ndarray,
        mask: np.ndarray | None,
        follows: bool = False,
    ) -> Explained:
        """Return whether rounding explains how `got` differs from `reference`, which both have the shape of the draws.

        source: the output as the source is deployed; where it is NaN or infinite, `got` may be the same. mask: the
        elements to compare; None for all. follows: whether integers depend on indices that were picked.
        """
        if self.changes_shape:
            return Explained(undecided="rounding decides how many elements there are")
        for who, other in (("graph", self.exact), ("reference", reference), ("source", source)):
            if got.shape != other.shape:
                return Explained(f"shape {list(got.shape)} where the {who} has {list(other.shape)}")
        if got.dtype.kind in "biu":
            return self._explain_integers(reference, got, follows)
        kept = np.ones(reference.shape, bool) if mask is None else mask
        draws = np.stack([_wide(run)[kept] for run in self.runs])
        exact, wanted, found, deployed = (_wide(a)[kept] for a in (self.exact, reference, got, source))
        kinds = nonfinite_kinds(found)
        as_reference, as_source = kinds == nonfinite_kinds(wanted), kinds == nonfinite_kinds(deployed)
        drawn = nonfinite_kinds(draws)
        possible = (drawn == kinds).any(axis=0) & (drawn != nonfinite_kinds(exact)).any(axis=0)
        if lost := int(np.count_nonzero(~as_reference & ~as_source & ~possible)):
            return Explained(f"{lost} elements are NaN or infinite on one side only")
        undecided = int(np.count_nonzero(~as_reference & ~as_source))
        numbers = (kinds == 0) & as_reference & np.isfinite(exact)
        draws = np.where(np.isfinite(draws), draws, exact)
        text = f"rounding decides which elements are NaN or infinite ({undecided} are otherwise)" if undecided else ""
        rows = np.nonzero(kept)[0][numbers] if kept.ndim > 1 else np.zeros(np.count_nonzero(numbers), int)
        whole = _wide(reference)
        scale = rms(whole[np.isfinite(whole)])
        flushed = _LEAST.get(source.dtype.name, 0.0)
        given = exact[numbers], draws[:, numbers], wanted[numbers], found[numbers]
        return _explain_numbers(*given, rows, scale, flushed, text, self.in_steps)

    def _explain_integers(self, reference: np.ndarray, got: np.ndarray, follows: bool) -> Explained:
        """Return whether rounding explains differences of integers and booleans, by the range of each in the runs.

        follows: one picked index may decide a whole row along the first axis, such as the words of a beam search. The
        runs show only some of the combinations that rounding allows, so a difference from all of them proves nothing.
        """
        draws = np.stack([np.asarray(run) for run in self.runs])
        differs, decided = got != reference, (draws != self.exact).any(axis=0)
        explained = (
            decided if got.dtype.kind == "b" else decided & (draws.min(axis=0) <= got) & (got <= draws.max(axis=0))
        )
        wrong = differs & ~explained
        rows = decided.any(axis=tuple(range(1, wrong.ndim)), keepdims=True)
        if follows and wrong.ndim > 1 and not (wrong & ~rows).any():
            return Explained(undecided="rounding decides which are picked" if wrong.any() else "")
        count = int(np.count_nonzero(wrong))
        if self.steps and count <= _UNSEEN * np.count_nonzero(differs):
            # If many elements are between two steps, some of them flip in none of these few runs. These may differ by
            # the same number of steps as the others.
            moved, off = (np.abs(a.astype(np.int64) - b).max() for a, b in ((draws, self.exact), (got, reference)))
            count = 0 if off <= moved else count
        return Explained(f"{count} of {got.size} elements differ where rounding decides nothing" if count else "")


def _explain_numbers(
    exact: np.ndarray,
    draws: np.ndarray,
    wanted: np.ndarray,
    found: np.ndarray,
    rows: np.ndarray,
    scale: float,
    flushed: float,
    undecided: str,
    in_steps: bool,
) -> Explained:
    """Return whether rounding explains differences of floating numbers.

    rows: the row of each element along the first axis, where errors may be correlated. scale: the rms of the whole
    output. flushed: errors up to this are ignored, because a runtime may flush denormals to 0. in_steps: as in
    `NoisyRuns`.
    """
    if not exact.size:
        return Explained(undecided=undecided)
    errors, moves = found - wanted, draws - exact
    errors[np.abs(errors) <= flushed] = 0
    apart, decided = rms(errors), are_decided(moves)
    share = min(rms(moves[:, ~decided]) / TIMES / max(scale, _TINY), 1 / _TINY)
    most = largest_moves(moves)
    if share > UNDECIDED:  # errors of this size are not small relative to the output's range
        most = np.maximum(most, np.abs(moves).max(axis=0))
    most = most * (1 + _LATTICE) if in_steps else most
    beyond = np.abs(errors) > most
    if in_steps and beyond.sum() <= _UNSEEN * np.count_nonzero(np.abs(errors) > rms(errors) / _STEP):
        # If many elements are between two steps, some of them flip in none of these few runs. These may differ by the
        # same number of steps as the others.
        beyond = beyond & (np.abs(errors) > np.abs(moves).max() * (1 + _LATTICE))
    if beyond.any():
        worst = int(np.argmax(np.where(beyond, np.abs(errors), 0.0)))
        off, moved = abs(errors[worst]), most[worst] / TIMES
        times = f"{off / moved:.3g} times what rounding does to it" if moved else "and rounding does nothing to it"
        far_beyond = bool(off > _HOPELESS * most[worst] and (moves[:, worst] != 0).all())
        return Explained(f"an element is off by {off:.2e}, {times}", share, far_beyond=far_beyond)
    smooth = ~decided & (moves != 0).any(axis=0)  # a kernel may take all decisions the same way
    together = rms(np.abs(errors[smooth]) / np.abs(moves[:, smooth]).max(axis=0)) if not in_steps else 0.0
    if in_steps:  # every element is a decision, and a row has only a few of them
        rows = np.zeros_like(rows)
    else:
        errors, moves, exact, rows = errors[smooth], moves[:, smooth], exact[smooth], rows[smooth]
    if together > RMS * (1 + 2 / np.sqrt(max(errors.size, 1))):
        return Explained(f"the elements are off by {12 * together:.3g} times what rounding does to them", share)
    for what, direction in (("scale", exact), ("offset", np.ones(exact.shape))):
        shifts = [_along(direction, each, rows) for each in (errors, *moves)]
        if (np.abs(shifts[0]) > largest_moves(np.stack(shifts[1:]))).any():
            return Explained(f"the {what} of its elements differs by more than rounding does to it", share)
    if not undecided and share > UNDECIDED and apart > AGREEMENT_SHARE * scale:
        undecided = f"rounding alone moves it by {share:.0%} of its size"
    return Explained("", share, undecided)


def _along(direction: np.ndarray, errors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the component of the errors along a direction, for each row and then for all rows together."""
    if errors.dtype.kind == "c":
        return np.zeros(0)
    parts, powers = (np.bincount(rows, weights=direction * each) for each in (errors, direction))
    parts, powers = np.append(parts, parts.sum()), np.append(powers, powers.sum())
    return np.divide(parts, powers, out=np.zeros(parts.shape), where=powers > 0)


def largest_moves(moves: np.ndarray) -> np.ndarray:
    """Return how far rounding may move each element, estimated from its moves in the runs, [runs, elements].

    For a single element the bound is six standard deviations. Some of n elements move little in all runs by chance, so
    their bound is 6 + 8·log₁₀ n standard deviations. An element that rounding decides may be as far off as in any run.
    """
    sizes = np.abs(moves)
    largest: np.ndarray = sizes.max(axis=0)
    with np.errstate(invalid="ignore"):  # squares of small numbers would underflow
        spread = largest * np.sqrt(np.mean((sizes / largest) ** 2, axis=0))
    smooth = np.where(largest > 0, spread * (_SINGLE + np.log10(max(largest.size, 1))), 0.0)
    return np.where(are_decided(moves), largest, smooth)


def are_decided(moves: np.ndarray) -> np.ndarray:
    """Return the mask of elements that rounding decides: they move much further in some runs than in others."""
    sizes = np.sort(np.abs(moves), axis=0)
    result: np.ndarray = sizes[-1] > _STEP * sizes[len(sizes) // 4]
    return result


def _wide(array: np.ndarray) -> np.ndarray:
    wide = widened_array(np.asarray(array))
    return wide if wide.dtype.kind == "c" else wide.astype(np.float64)


Runs = list[dict[str, np.ndarray]]


@dataclass
class Estimates:
    """Runs of a graph with rounding errors, computed on demand and cached for each set of inputs.

    integers: whether integer kernels compute what is quantized in the graph.
    """

    graph: ir.Model
    feeds: Sequence[Feed]
    integers: bool = False
    runs: dict[tuple[int, float | None], Runs] = field(default_factory=dict)

    def drawn(self, place: int, name: str, roundoff: float | None = None, draws: int = RUNS) -> NoisyRuns | None:
        """Return what rounding does to an output on the feed at index `place`; None if the graph does not run this way.

        roundoff: replaces the unit roundoffs of the graph's dtypes. draws: how many runs are enough. Raises
        `ResourceLimit` if these take too long.
        """
        found = self.runs.setdefault((place, roundoff), [])
        steps = any(is_of_steps(value) for value in self.graph.graph.outputs if value.name == name)
        in_steps = self.integers and roundoff is None
        return _draws_of(self._run(found, place, roundoff, (), draws), name, steps=steps, in_steps=in_steps)

    def explain(
        self,
        place: int,
        name: str,
        reference: np.ndarray,
        got: np.ndarray,
        source: np.ndarray,
        part: np.ndarray | None = None,
        roundoff: float | None = None,
    ) -> Explained | None:
        """Return the result of `NoisyRuns.explain` for an output, with as many runs as it needs; None without any run.

        Raises like `drawn`.
        """
        found = None
        for draws in (MIN_RUNS, RUNS, MAX_RUNS):
            drawn = self.drawn(place, name, roundoff, draws)
            if drawn is None:
                break
            found = drawn.explain(reference, got, source, part, self._follows_picks(name))
            undecided = drawn.decides or found.share > UNDECIDED
            far_beyond = found.far_beyond and not drawn.in_steps  # runs may miss a rare step
            if far_beyond or (draws == RUNS and not ((found.reason or found.undecided) and undecided)):
                break
        return found

    def _follows_picks(self, name: str) -> bool:
        """Return whether an output of the graph depends on indices that a node picks."""
        pending = [value for value in self.graph.graph.outputs if value.name == name]
        seen = set(pending)
        while pending:
            node = pending.pop().producer()
            if node is None:
                continue
            if node.op_type in _PICKING:
                return True
            new = {value for value in node.inputs if value is not None} - seen
            seen |= new
            pending += new
        return False

    def drawn_value(self, place: int, name: str, roundoff: float | None = None) -> NoisyRuns | None:
        """Return the noisy runs of a value inside the graph, as `drawn` does for outputs, without caching them."""
        return _draws_of(self._run([], place, roundoff, [name], RUNS), name)

    def _run(self, found: Runs, place: int, roundoff: float | None, outputs: Sequence[str], draws: int) -> Runs:
        """Return outputs of the graph: first exact, then with rounding errors; fewer runs if the time is over.

        found: runs that were computed before; new ones are appended. Returns [] if the graph does not run. Raises
        `ResourceLimit` if the time is over with fewer than `MIN_RUNS` runs with errors.
        """
        from convert.reference.monte_carlo import run_with_rounding

        arrays, integers = self.feeds[place].arrays, self.integers and roundoff is None
        run = partial(run_with_rounding, self.graph, arrays, outputs=outputs, roundoff=roundoff, integers=integers)
        try:
            with doing("estimating what rounding does", f"{RUNS} runs"), limited_time(SECONDS):
                for seed in range(len(found), draws + 1):
                    found.append(run(seed, times=TIMES if seed else 0.0))
        except ResourceLimit:
            if len(found) <= MIN_RUNS:
                raise
        except ConvertError:
            return []
        return found


def _draws_of(runs: Runs, name: str, *, steps: bool = False, in_steps: bool = False) -> NoisyRuns | None:
    if not runs:
        return None
    exact, *draws = (np.asarray(each[name]) for each in runs)
    return NoisyRuns(exact, draws, steps, in_steps)


def is_of_steps(value: ir.Value | None) -> bool:
    """Return whether a value is the output of a QuantizeLinear, directly or behind operators that move elements."""
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "QuantizeLinear":
            return True
        if node.op_type not in MOVES:
            return False
        value = node.inputs[0]
    return False
