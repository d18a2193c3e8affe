"""Matches the names of a checkpoint's weights with those of a module; prefixes of wrappers are found systematically."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

_WRAPPERS = frozenset(("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
"""Parts of names that DataParallel, torch.compile, FSDP and checkpointing insert wherever they wrap a module."""

WRAPPER_PREFIXES = ("", "model.", "net.", "network.", "module.", "backbone.", "encoder.")
"""Prefixes of the trained network in training wrappers, the likeliest first."""


@dataclass(frozen=True)
class Match:
    """The result of a match: `taken` has the checkpoint's name for each name of the module; the rest are left over or
    missing.
    """

    taken: Mapping[str, str]
    prefix: str = ""
    added: str = ""
    wrappers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    beside: tuple[str, ...] = field(default=())
    """Names outside the prefix of the module: a loss, a metric, another network."""
    other_prefixes: tuple[str, ...] = ()
    """Other prefixes under which the whole module occurs."""

    @property
    def complete(self) -> bool:
        return not self.missing and not self.unexpected


def match_names(module: nn.Module, names: Iterable[str]) -> Match:
    """Match a checkpoint's names with those of `module`, changing as little as possible.

    Names that fit unchanged stay. Otherwise parts that wrappers insert are removed on both sides. Then the prefix is
    searched under which every weight of the module is found, or every weight of the checkpoint (if the factory wraps
    what was saved). If nothing fits, the names are compared unchanged.
    """
    names = list(names)
    own = list(module.state_dict())
    needed = needed_names(module)
    plain = _match(own, needed, {n: n for n in names})
    if plain.complete:
        return plain
    short, shortened = shortened_names(names), shortened_names(own)
    if len(short) == len(names) and len(shortened) == len(own):
        found = _match_by_prefix(list(shortened), {s for s, o in shortened.items() if o in needed}, list(short))
        if found is not None:
            inserted = {p for n in names for p in n.split(".") if p in _WRAPPERS}
            kept = {p for n in own for p in n.split(".") if p in _WRAPPERS}
            return Match(
                {shortened[o]: short[n] for o, n in found.taken.items()},
                found.prefix,
                found.added,
                tuple(sorted(inserted - kept)),
                beside=tuple(short[n] for n in found.beside),
                other_prefixes=found.other_prefixes,
            )
    return plain


def needed_names(module: nn.Module) -> set[str]:
    """Return the names that a checkpoint must have; batch counters, and all but one name of a shared weight, may be
    missing.
    """
    seen: dict[int, str] = {}
    shared = set()
    for name, tensor in (*module.named_parameters(remove_duplicate=False), *module.named_buffers()):
        if seen.setdefault(id(tensor), name) != name:
            shared.add(name)
    return {n for n in module.state_dict() if not n.endswith("num_batches_tracked") and n not in shared}


def shortened_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name for each short form, without the parts of wrappers; of names with equal short forms one is left."""
    return {".".join(p for p in name.split(".") if p not in _WRAPPERS): name for name in names}


def _match(own: list[str], needed: set[str], names: Mapping[str, str]) -> Match:
    taken = {o: names[o] for o in own if o in names}
    return Match(
        taken,
        missing=tuple(o for o in own if o in needed and o not in names),
        unexpected=tuple(n for n in names if n not in set(own)),
    )


def _match_by_prefix(own: list[str], needed: set[str], names: list[str]) -> Match | None:
    """Return the match if either the checkpoint or the module has one additional prefix, else None."""
    if not needed or not names:
        return None
    known, first = set(names), min(needed)
    prefixes = [n.removesuffix(first) for n in names if n == first or n.endswith(f".{first}")]
    fitting = [p for p in prefixes if all(p + o in known for o in needed)]
    if fitting:
        order = sorted(
            fitting,
            key=lambda p: (WRAPPER_PREFIXES.index(p) if p in WRAPPER_PREFIXES else len(WRAPPER_PREFIXES), len(p)),
        )
        prefix = order[0]
        taken = {o: prefix + o for o in own if prefix + o in known}
        left = [n for n in names if n not in set(taken.values())]
        inside = [n for n in left if n.startswith(prefix)]
        # Names left over without a prefix, or under the module's prefix, were intended for the module.
        if inside:
            return None
        return Match(taken, prefix, beside=tuple(left), other_prefixes=tuple(order[1:]))
    for added in (o.removesuffix(names[0]) for o in own if o.endswith(f".{names[0]}")):
        if all(added + n in own for n in names) and all(o.startswith(added) for o in needed):
            return Match({added + n: n for n in names}, added=added)
    return None


def rename_weights(module: nn.Module, state: Mapping[str, torch.Tensor], match: Match) -> dict[str, torch.Tensor]:
    """Return the weights by the module's names; a shared one gets the checkpoint's content for the last of its names.

    PyTorch does the same by copying them into the one weight, one after another.
    """
    named = {own: state[name] for own, name in match.taken.items()}
    named |= {name: state[name] for name in match.unexpected}
    groups: dict[int, list[str]] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        groups.setdefault(id(tensor), []).append(name)
    for group in groups.values():
        given = next((n for n in reversed(group) if n in named), None)
        named |= {n: named[given] for n in group if given is not None}
    return named
