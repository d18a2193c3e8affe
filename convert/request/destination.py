"""Finds the requested format by any of its names, and the path of the artefact; nothing is read or imported for
that.
"""

from __future__ import annotations

from pathlib import Path

from convert import plugin
from convert.errors import UsageError
from convert.files.companions import dtype_suffix
from convert.files.output_place import check_inside
from convert.files.part_names import PARTS
from convert.request.elsewhere import ROUTES, route_by_name, route_by_suffix
from convert.request.nearest import did_you_mean
from convert.request.options import Options
from convert.request.source import Source, check_path_text
from convert.request.storage import DTYPE, QUANTIZE


def format_named(name: str) -> plugin.Format:
    """Return the format with the name or alias `name`. Raises `UsageError` with a suggestion."""
    forms, plain = plugin.formats(), _plain(name)
    for form in forms.values():
        if plain == form.name or plain in form.aliases:
            return form
    route = route_by_name(plain)
    if route is not None:
        raise UsageError(f"{route.title} is not written here ({name})", hint=route.way)
    several = [word for word in plain.split(",") if any(word in (form.name, *form.aliases) for form in forms.values())]
    if len(several) > 1:
        raise UsageError(f"{name} names several formats", hint=f"of several formats: convert batch MODEL "
                         f"{' '.join(f'--to {word}' for word in several)} -o converted")  # fmt: skip
    raise UsageError(f"there is no format {name!r}", hint=_near(plain) + f"formats: {', '.join(sorted(forms))}")


def names_format(word: str) -> bool:
    """Return whether a word names a format (also one of other converters), and not a file."""
    plain = _plain(word)
    known = any(plain == form.name or plain in form.aliases for form in plugin.formats().values())
    return known or route_by_name(plain) is not None


def format_of(to: str | None, output: str | Path | None) -> plugin.Format:
    """Return the format requested by name or by the suffix of the output; if both are given, they must agree.

    Raises `UsageError`.
    """
    by_suffix = [] if output is None else [f for f in plugin.formats().values() if _ends_in(output, f.suffix)]
    elsewhere = None if output is None or by_suffix else route_by_suffix(Path(output).name)
    if to is None:
        if len(by_suffix) == 1:
            return by_suffix[0]
        hint = f"give --to with one of: {', '.join(sorted(plugin.formats()))}"
        if output is None:
            raise UsageError("no output format is given", hint=hint)
        if elsewhere is not None:
            raise UsageError(f"{output} names {elsewhere.title}, which is not written here",
                             hint=elsewhere.way)  # fmt: skip
        raise UsageError(f"the name {output} does not say which format to write", hint=hint)
    form = format_named(to)
    if by_suffix and form not in by_suffix:
        other = by_suffix[0]
        raise UsageError(
            f"{output} names the format {other.name}, but --to says {form.name}",
            hint=f"give --to {other.name}, or an -o that ends in {form.suffix}",
        )
    if elsewhere is not None:
        raise UsageError(
            f"{output} names {elsewhere.title}, but --to says {form.name}",
            hint=f"give an -o that ends in {form.suffix}; {elsewhere.title}: {elsewhere.way}",
        )
    if form.suffix_needed and output is not None and not by_suffix:
        raise UsageError(
            f"{output} does not end in {form.suffix}, and {form.name} is read under no other name",
            hint=f"give -o {output}{form.suffix}",
        )
    return form


def destination(
    source: Source, to: str | None, output: str | Path | None, options: Options
) -> tuple[Path, plugin.Format]:
    """Return where the artefact goes: `output`, or the source's stem with the format's suffix, in the current folder.

    With a runtime in `options`, an `output` that is no file name is a folder. The artefact goes where that runtime
    looks for it in the folder. Raises `UsageError`.
    """
    form = format_of(to, output)
    if output is None and source.path is None:
        raise UsageError("a model in memory has no name", hint="give output=…")
    place = Path(output if output is not None else stem_of(source) + form.suffix)
    inside = plugin.folder_of_runtime(form, options)
    if inside is not None and (output is None or not _ends_in(output, form.suffix)):
        whole = output_folder(source, form, output)
        folder = whole / inside
        check_inside(whole, [folder])
        suffix = dtype_suffix(folder, QUANTIZE.of(options) or DTYPE.of(options))
        place = folder / f"{PARTS[0]}{suffix}{form.suffix}"
    check_path_text(form.kind, place)
    return place, form


def output_folder(source: Source, form: plugin.Format, output: str | Path | None) -> Path:
    """Return the folder of an output of several files: `output`, or a name made of the source's and the format's."""
    return Path(f"{stem_of(source)}-{form.name}" if output is None else output)


def exists_error(place: Path, form: plugin.Format, source: Source) -> UsageError:
    """Return the error for an output that already exists."""
    if form.folder or not place.is_dir():
        return UsageError(f"{place} exists already", hint="give another -o, or --force to replace it")
    inside = place / stem_of(source)
    return UsageError(f"{place} is a folder that exists already, and {form.name} is one file",
                      hint=f"give -o {inside}{form.suffix}; "
                           f"to convert several models: convert batch … -o {place}")  # fmt: skip


def stem_of(source: Source) -> str:
    """Return the name of a source without suffix; `model` for an object in memory."""
    from convert.files.folders import real_path

    if source.path is None:
        return "model"
    path = source.path
    name = real_path(path).name
    return name if path.is_dir() and "." not in name else name.rsplit(".", 1)[0]


def _plain(name: str) -> str:
    return name.strip().lower().removeprefix(".").replace("_", "-").replace(" ", "-")


def _ends_in(output: str | Path, suffix: str) -> bool:
    return Path(output).name.lower().endswith(suffix)


def _near(plain: str) -> str:
    forms = plugin.formats().values()
    names = [name for form in forms for name in (form.name, *form.aliases)]
    # `onnx:13` means the format onnx with an opset after it.
    asked = next((part for part in (plain, plain.partition(":")[0]) if part in names), plain)
    return did_you_mean(asked, [*names, *(n for r in ROUTES for n in r.names)], "'")
