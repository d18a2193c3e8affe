"""Estimates what rounding does to each element of an output, and tells whether it explains a difference.

The shared graph is evaluated in float64 with random rounding errors (`convert/reference/monte_carlo.py`), `TIMES` times
as large as those of the dtypes of its values, in `DRAWS` runs. A difference of an element is explained by rounding if
the element moves as far in these runs. This covers NaN and infinities too, and what comparisons and indices decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.activity import doing, limited_time
from convert.errors import ConvertError, ResourceLimit
from convert.graph.tensors import ROUNDOFF, widened_array
from convert.graph.values import MOVES
from convert.parity.inputs.feeds import Feed
from convert.parity.magnitudes import rms

TIMES = 8.0
"""An error of as many standard deviations of rounding is tried out."""
FEWEST, DRAWS, MOST_DRAWS = 2, 8, 32
"""So often: at first, as a rule, and where something is decided by less than rounding."""
_SINGLE = 0.75
"""So many times the spread, of errors `TIMES` too large, a single element may be off."""
_STEP = 16.0
"""The largest of some moves is so many times as large as those of a quarter of the draws where there are two kinds."""
_HOPELESS = 100.0
"""An error of so many largest moves in the first runs is not explained by more of them."""
RMS = 1 / 3
"""The root mean square of errors, in units of the largest moves seen; a standard deviation is a twelfth of these."""
UNDECIDED = 0.1
"""Where a standard deviation of rounding is more than this part of an output, agreement proves nothing,"""
AGREES = 1e-3
"""unless source and target agree to this part of it."""
_UNSEEN = 0.25
"""So large a part of the steps that differ may flip in none of the runs."""
_LEAST = {name: float(ml_dtypes.finfo(name).tiny) for name in ROUNDOFF}
"""The least normal number by dtype."""
_TINY = float(np.finfo(np.float64).tiny)
_PICKING = frozenset(("ArgMax", "ArgMin", "TopK", "NonMaxSuppression"))
SECONDS = 60.0
"""So long may the runs on one set of inputs take."""
FLOAT64 = ROUNDOFF["float64"]
"""The unit roundoff of float64, for the graph against the source in float64."""


@dataclass(frozen=True)
class Explained:
    """Whether rounding explains all differences of an output; otherwise `reason` says which it does not.

    share: a standard deviation of rounding, relative to the root mean square of the whole output.
    undecided: why rounding decides so much of the output that agreement proves nothing, or empty.
    hopeless: the difference is far larger than rounding, so that no more runs are needed to tell.
    """

    reason: str = ""
    share: float = 0.0
    undecided: str = ""
    hopeless: bool = False


@dataclass(frozen=True)
class Spread:
    """One output of the graph in float64 (exact), and with rounding errors (draws)."""

    exact: np.ndarray
    draws: Sequence[np.ndarray]
    steps: bool = False
    """Whether its integers are steps of a quantization."""

    @property
    def changes_shape(self) -> bool:
        """Whether rounding decides how many elements there are."""
        return any(draw.shape != self.exact.shape for draw in self.draws)

    @property
    def decides(self) -> bool:
        """Whether some elements move in some of the runs and not in others, as what is rounded to a step does."""
        if self.changes_shape or self.exact.dtype.kind in "OUS":
            return False
        with np.errstate(invalid="ignore"):  # infinities have no distance
            moves = np.stack([_wide(draw) for draw in self.draws]) - _wide(self.exact)
        return bool(are_decided(np.where(np.isfinite(moves), moves, 0)).any())

    def explain(
        self,
        reference: np.ndarray,
        got: np.ndarray,
        source: np.ndarray,
        mask: np.ndarray | None,
        follows: bool = False,
    ) -> Explained:
        """Say whether rounding explains how `got` differs from `reference`, both of the shape of the draws.

        source: the output as the source is deployed; where it is NaN or infinite, `got` may be the same. mask: the
        elements that are looked at, all where there is none. follows: whether integers follow from what was picked.
        """
        if self.changes_shape:
            return Explained(undecided="rounding decides how many elements there are")
        for who, other in (("graph", self.exact), ("reference", reference), ("source", source)):
            if got.shape != other.shape:
                return Explained(f"shape {list(got.shape)} where the {who} has {list(other.shape)}")
        if got.dtype.kind in "biu":
            return self._explain_integers(reference, got, follows)
        kept = np.ones(reference.shape, bool) if mask is None else mask
        draws = np.stack([_wide(draw)[kept] for draw in self.draws])
        exact, wanted, found, deployed = (_wide(a)[kept] for a in (self.exact, reference, got, source))
        kinds = _kinds(found)
        as_reference, as_source = kinds == _kinds(wanted), kinds == _kinds(deployed)
        drawn = _kinds(draws)
        possible = (drawn == kinds).any(axis=0) & (drawn != _kinds(exact)).any(axis=0)
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
        return _explain_numbers(
            exact[numbers], draws[:, numbers], wanted[numbers], found[numbers], rows, scale, flushed, text
        )

    def _explain_integers(self, reference: np.ndarray, got: np.ndarray, follows: bool) -> Explained:
        """Say so of integers and booleans, each of which may be what it is in some run.

        follows: one pick may decide a whole row along the first axis, such as the words of a search with beams. The
        runs show only some of the combinations that rounding allows, so that a difference from them proves nothing.
        """
        draws = np.stack([np.asarray(draw) for draw in self.draws])
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
            # Some of many elements that lie between two steps flip in none of so few runs, but no further than others.
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
) -> Explained:
    """Say so of plain numbers.

    rows: the row of each along the first axis, where errors may go together. scale: the root mean square of the whole
    output. flushed: what is smaller may be 0 to a runtime.
    """
    if not exact.size:
        return Explained(undecided=undecided)
    errors, moves = found - wanted, draws - exact
    errors[np.abs(errors) <= flushed] = 0
    apart, decided = rms(errors), are_decided(moves)
    share = min(rms(moves[:, ~decided]) / TIMES / max(scale, _TINY), 1 / _TINY)
    most = largest_moves(moves)
    if share > UNDECIDED:  # errors this large are no longer small against what they may be at all
        most = np.maximum(most, np.abs(moves).max(axis=0))
    if (beyond := np.abs(errors) > most).any():
        worst = int(np.argmax(np.where(beyond, np.abs(errors), 0.0)))
        off, moved = abs(errors[worst]), most[worst] / TIMES
        times = f"{off / moved:.3g} times what rounding does to it" if moved else "and rounding does nothing to it"
        hopeless = bool(off > _HOPELESS * most[worst] and (moves[:, worst] != 0).all())
        return Explained(f"an element is off by {off:.2e}, {times}", share, hopeless=hopeless)
    smooth = ~decided & (moves != 0).any(axis=0)  # kernels may take all decisions one way
    errors, moves, exact, rows = errors[smooth], moves[:, smooth], exact[smooth], rows[smooth]
    together = rms(np.abs(errors) / np.abs(moves).max(axis=0))
    if together > RMS * (1 + 2 / np.sqrt(max(errors.size, 1))):
        return Explained(f"the elements are off by {12 * together:.3g} times what rounding does to them", share)
    for what, direction in (("scale", exact), ("offset", np.ones(exact.shape))):
        shifts = [_along(direction, each, rows) for each in (errors, *moves)]
        if (np.abs(shifts[0]) > largest_moves(np.stack(shifts[1:]))).any():
            return Explained(f"the {what} of its elements differs by more than rounding does to it", share)
    if not undecided and share > UNDECIDED and apart > AGREES * scale:
        undecided = f"rounding alone moves it by {share:.0%} of its size"
    return Explained("", share, undecided)


def _along(direction: np.ndarray, errors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return how much of a direction the errors of each row and of all rows together contain."""
    if errors.dtype.kind == "c":
        return np.zeros(0)
    parts, powers = (np.bincount(rows, weights=direction * each) for each in (errors, direction))
    parts, powers = np.append(parts, parts.sum()), np.append(powers, powers.sum())
    return np.divide(parts, powers, out=np.zeros(parts.shape), where=powers > 0)


def largest_moves(moves: np.ndarray) -> np.ndarray:
    """Return how far rounding may move each element, of its moves in the draws [draws, elements].

    This is six standard deviations for one element. Some of many elements move little in all draws by chance, so there
    are more for n elements: 8·log₁₀ n. An element that rounding decides may be as far off as in any draw.
    """
    sizes = np.abs(moves)
    largest: np.ndarray = sizes.max(axis=0)
    with np.errstate(invalid="ignore"):  # squares of small numbers would be 0
        spread = largest * np.sqrt(np.mean((sizes / largest) ** 2, axis=0))
    smooth = np.where(largest > 0, spread * (_SINGLE + np.log10(max(largest.size, 1))), 0.0)
    return np.where(are_decided(moves), largest, smooth)


def are_decided(moves: np.ndarray) -> np.ndarray:
    """Return which elements rounding decides: they move much further in some draws than in others."""
    sizes = np.sort(np.abs(moves), axis=0)
    result: np.ndarray = sizes[-1] > _STEP * sizes[len(sizes) // 4]
    return result


def _wide(array: np.ndarray) -> np.ndarray:
    wide = widened_array(np.asarray(array))
    return wide if wide.dtype.kind == "c" else wide.astype(np.float64)


def _kinds(array: np.ndarray) -> np.ndarray:
    """1 for NaN, 2 and 3 for the infinities, 0 for numbers."""
    if array.dtype.kind == "c":
        return np.where(np.isfinite(array), 0, 1)
    return np.select([np.isnan(array), array == np.inf, array == -np.inf], [1, 2, 3], 0)


Runs = list[dict[str, np.ndarray]]


@dataclass
class Estimates:
    """The runs of a graph with rounding errors, made where they are asked for, once for each set of inputs."""

    graph: ir.Model
    feeds: Sequence[Feed]
    runs: dict[tuple[int, float | None], Runs] = field(default_factory=dict)

    def spread(self, place: int, name: str, roundoff: float | None = None, draws: int = DRAWS) -> Spread | None:
        """Return what rounding does to an output on the feed at `place`; None where the graph does not run so.

        roundoff: in place of that of the dtypes of the graph. draws: how many runs are enough. Raises `ResourceLimit`
        where these take too long.
        """
        found = self.runs.setdefault((place, roundoff), [])
        steps = any(_is_of_steps(value) for value in self.graph.graph.outputs if value.name == name)
        return _spread(self._run(found, place, roundoff, (), draws), name, steps=steps)

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
        """Return what `Spread.explain` says of an output, of as many runs as it takes to tell; None where none are had.

        Raises as `spread`.
        """
        found = None
        for draws in (FEWEST, DRAWS, MOST_DRAWS):
            spread = self.spread(place, name, roundoff, draws)
            if spread is None:
                break
            found = spread.explain(reference, got, source, part, self._follows_picks(name))
            undecided = spread.decides or found.share > UNDECIDED
            if found.hopeless or (draws == DRAWS and not ((found.reason or found.undecided) and undecided)):
                break
        return found

    def _follows_picks(self, name: str) -> bool:
        """Return whether an output of the graph depends on what a node has picked."""
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

    def spread_of_value(self, place: int, name: str, roundoff: float | None = None) -> Spread | None:
        """Return the same of a value inside the graph, without keeping it."""
        return _spread(self._run([], place, roundoff, [name], DRAWS), name)

    def _run(self, found: Runs, place: int, roundoff: float | None, outputs: Sequence[str], draws: int) -> Runs:
        """Return outputs of the graph, exact first and then with rounding errors; of fewer runs where time is over.

        found: those that are there already; others are added to it.
        """
        from convert.reference.monte_carlo import run_with_rounding

        arrays = self.feeds[place].arrays
        try:
            with doing("estimating what rounding does", f"{DRAWS} runs"), limited_time(SECONDS):
                for seed in range(len(found), draws + 1):
                    times = TIMES if seed else 0.0
                    found.append(
                        run_with_rounding(self.graph, arrays, seed, times=times, outputs=outputs, roundoff=roundoff)
                    )
        except ResourceLimit:
            if len(found) <= FEWEST:
                raise
        except ConvertError:
            return []
        return found


def _spread(runs: Runs, name: str, *, steps: bool = False) -> Spread | None:
    if not runs:
        return None
    exact, *draws = (np.asarray(each[name]) for each in runs)
    return Spread(exact, draws, steps)


def _is_of_steps(value: ir.Value | None) -> bool:
    """Return whether a value is what a QuantizeLinear gives, moved at most."""
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "QuantizeLinear":
            return True
        if node.op_type not in MOVES:
            return False
        value = node.inputs[0]
    return False
