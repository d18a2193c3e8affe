"""A hint for inputs that were described with channels last, as in other frameworks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

_RANKS = (4, 5)


def channels_first_hint(
    dims: Mapping[str, Sequence[object]], dtypes: Mapping[str, object], run_moved: Callable[[Collection[str]], object]
) -> str:
    """Return the descriptions with channels first if the module runs on these; else "".

    dims: those of each input as described, `None` as the name of an unnamed one. run_moved: runs the module with the
    last dim of the named inputs moved to the second position, and raises if it fails.
    """
    names = [name for name, own in dims.items() if len(own) in _RANKS]
    if not names:
        return ""
    try:
        run_moved(names)
    except Exception:  # arbitrary code of the user
        return ""
    described = []
    for name in names:
        first, *inner, last = ("?" if dim is None else str(dim) for dim in dims[name])
        dtype = str(dtypes[name]).removeprefix("torch.")
        described.append(f"--input '{name}:{dtype}[{','.join([first, last, *inner])}]'")
    return f"it runs with the channels first: {' '.join(described)}; add --layout nhwc to have them last in the output"
