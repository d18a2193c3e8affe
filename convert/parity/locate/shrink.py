"""Shrink a failing set of items to a smaller one that still fails, by delta debugging (Zeller, Hildebrandt 2002)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Shrinking(Generic[T]):
    """The search for a small set that fails. `fails` is a trial, which takes seconds; each set is tried once.

    complete: adds the items that others of a set need. most, seconds: limits on the trials and on their time.
    """

    fails: Callable[[Sequence[T]], bool]
    complete: Callable[[Iterable[T]], list[T]]
    most: int
    seconds: float
    trials: int = 0
    ended_early: bool = False
    _known: dict[frozenset[int], bool] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def smallest(self, whole: Sequence[T], guesses: Iterable[Sequence[T]] = ()) -> list[T]:
        """Return a failing set from which no item can be removed, as far as the limits allow.

        whole: a set that fails. guesses: sets that may fail, in the order in which to try them.
        """
        found = next((g for g in map(self.complete, guesses) if len(g) < len(whole) and self._try(g)), list(whole))
        count = 2
        while len(found) > 1 and not self.ended_early:
            smaller = self._smaller(found, count)
            if smaller is not None:
                found, count = smaller, 2
            elif count >= len(found):
                break
            else:
                count = min(2 * count, len(found))
        return found

    def _smaller(self, found: Sequence[T], count: int) -> list[T] | None:
        """Return a failing subset: one of `count` pieces, or the set without one of them. Return None if none of these
        fails.
        """
        bounds = [len(found) * i // count for i in range(count + 1)]
        pieces = [found[a:b] for a, b in pairwise(bounds) if a < b]
        rests = [[item for item in found if item not in piece] for piece in pieces] if count > 2 else []
        for candidate in map(self.complete, [*pieces, *rests]):
            if candidate and len(candidate) < len(found) and self._try(candidate):
                return candidate
        return None

    def _try(self, items: Sequence[T]) -> bool:
        key = frozenset(map(id, items))
        if key not in self._known:
            if self.trials >= self.most or time.monotonic() - self._began > self.seconds:
                self.ended_early = True
                return False
            self.trials += 1
            self._known[key] = self.fails(items)
        return self._known[key]
