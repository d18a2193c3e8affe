"""Interprets the words of a conversion: the model, and after it the output path or the format."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from convert.errors import UsageError
from convert.request.destination import format_named, format_of, names_format


def placed(words: Sequence[str], to: str | None, output: Path | None) -> tuple[Path, str, Path | None]:
    """Return the model, the format and the output for `MODEL [OUTPUT|FORMAT]` and the options.

    `m.pt tf` and `m.pt x.tflite` mean `m.pt --to tf` and `m.pt -o x.tflite`. Raises `UsageError` if words and options
    contradict each other, before anything is read.
    """
    words = _without_fillers(words)
    source, more = words[0], list(words[1:])
    if len(more) == 1 and names_format(source) and not os.path.exists(source) and os.path.exists(more[0]):
        raise UsageError(f"{source} is a format; the model comes first", hint=f"convert {more[0]} {source}")
    if more and more[-1] == "help" and not os.path.exists("help"):
        raise UsageError("there is no format 'help'", hint="`convert --help` shows the options")
    if len(more) == 2 and names_format(more[1]) != names_format(more[0]):  # m.pt tf x.savedmodel
        more = sorted(more, key=names_format)
    if len(more) > 2 or (len(more) == 2 and not names_format(more[1])):
        command = shlex.join(["convert", "batch", *words[:3]]) + (" …" if words[3:] else "")
        raise UsageError(
            f"a conversion takes one model and one output, but {len(words)} names are given: {', '.join(words[:5])}",
            hint=f"to convert several models: {command} --to FORMAT -o converted",
        )
    for word in more:
        if names_format(word):
            if to is not None and format_named(to) != format_named(word):
                raise UsageError(f"{word} and --to {to} both name the format", hint="leave one of them out")
            to = word
        elif output is not None:
            raise UsageError(f"{word} and -o {output} both name the output", hint="leave one of them out")
        else:
            output = Path(word)
    if output is not None and str(output) in ("-", "/dev/stdout"):
        raise UsageError("an output is a file or a folder, and stdout carries the result", hint="give -o PATH")
    if to is None and output is not None and len(more) == 1 and not Path(more[0]).suffix:
        format_of(more[0], None)  # a misspelled format; the error suggests the right one
    if to is None and output is None:
        from convert.files.sniff import sniff

        sniff(Path(source))  # a folder of models, or a missing file, is reported before the missing format
    try:
        form = format_of(to, output)
    except UsageError as error:
        if more and os.path.isfile(more[-1]) and output == Path(more[-1]):
            hint = f"several models: {shlex.join(['convert', 'batch', *words])} --to FORMAT -o converted; {error.hint}"
            raise UsageError(error.message, hint=hint) from None
        raise
    return Path(source), form.name, output


def _without_fillers(words: Sequence[str]) -> list[str]:
    """Return `from m.pt to tf` and `m.pt as x.tflite` without the words between, unless those are files."""
    kept = list(words[1:]) if len(words) > 2 and words[0] == "from" and not os.path.exists("from") else list(words)
    if len(kept) > 2 and kept[1] in ("to", "into", "as", "in", "->") and not os.path.exists(kept[1]):
        del kept[1]
    return kept
