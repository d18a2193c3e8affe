"""One conversion with all of its options: what the command line parses, and what a batch passes to its workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from convert import plugin
from convert.cli.declared_options import values
from convert.cli.limit_options import LimitOptions
from convert.cli.output_options import FilesBeside, OutputOptions
from convert.cli.read_options import LAYOUTS, ReadOptions
from convert.cli.verify_options import VerifyOptions
from convert.errors import UsageError
from convert.outcome.report import Report


@dataclass(frozen=True)
class Conversion:
    """A conversion of `source` to `format` at `output`, with its options.

    - `output`: None for a name that follows from the source
    - `verify`: None verifies if the runtimes are installed
    - `declared`: the options of frontends and backends by name; None for one that was not given
    """

    source: Path
    format: str
    output: Path | None
    layout: str = ""
    verify: bool | None = None
    force: bool = False
    skip_existing: bool = False
    dry_run: bool = False
    dump_passes: Path | None = None
    check_passes: bool = False
    read: ReadOptions = field(default_factory=ReadOptions)
    verification: VerifyOptions = field(default_factory=VerifyOptions)
    limits: LimitOptions = field(default_factory=LimitOptions)
    shown: OutputOptions = field(default_factory=OutputOptions)
    declared: Mapping[str, Any] = field(default_factory=dict)

    def work(self, report: Report) -> Report:
        """Convert, and return the report. Raises as `convert.convert` does."""
        from convert import api

        return api.convert(
            self.source,
            self.format,
            self.output,
            verify=self.verify,
            force=self.force,
            skip_existing=self.skip_existing,
            dry_run=self.dry_run,
            dump_passes=self.dump_passes,
            check_passes=self.check_passes,
            rules=self.read.rules,
            report=report,
            method=self.verification.method(self.limits.of_runs(), list(self.declared.values())),
            layout=self.layout,
            **values(self.declared, self.verification.image_as),
            **self.read.options(),
        )

    def files(self) -> FilesBeside:
        """Return the files that are written beside the output."""
        return replace(self.verification, output=self.output)

    def files_read(self) -> list[Path]:
        """Return the files that are read, none of which may be overwritten."""
        named = (*self.declared.values(), *self.read.rules, *self.read.code)
        return [self.source, *(path for path in named if isinstance(path, Path))]

    def files_written(self) -> list[Path] | None:
        """Return the paths that are written besides `files`; None if the user's own code runs."""
        dumped = [self.dump_passes] if self.dump_passes else []
        return self.read.written_by([self.source], [self.output or Path("m"), *dumped])


def conversion_of_task(source: str, form: str, output: str, options: Mapping[str, Any]) -> Conversion:
    """Return the conversion of a batch's task, whose `options` are named and typed as in a manifest.

    It replaces its output, and is reported as JSON. Raises `UsageError` for an option that does not exist or a value
    that is not allowed.
    """
    left = dict(options)

    def take(name: str, default: Any = None, of: Callable[[Any], Any] = lambda value: value) -> Any:
        return of(left.pop(name)) if name in left else default

    read = ReadOptions(
        inputs=take("input", (), tuple),
        model=take("model", ""),
        model_args=take("model_arg", (), tuple),
        code=take("code", (), _paths),
        outputs=take("outputs", (), _names),
        signature=take("signature", ""),
        trust=take("trust", False),
        trace=take("trace", False),
        rules=take("rules", (), _paths),
    )
    verification = VerifyOptions(
        arrays=take("inputs", None, Path), seeds=take("seeds", 3), rtol=take("rtol"), atol=take("atol")
    )
    return Conversion(
        Path(source),
        form,
        Path(output),
        layout=take("layout", "", _layout),
        verify=take("verify"),
        force=True,
        dry_run=take("dry-run", False),
        read=read,
        verification=verification,
        shown=OutputOptions(as_json=True),
        declared=_declared(left),
    )


def _paths(names: list[str]) -> tuple[Path, ...]:
    return tuple(map(Path, names))


def _names(given: str | list[str]) -> tuple[str, ...]:
    return tuple(name for name in (given.split(",") if isinstance(given, str) else given) if name)


def _layout(given: str) -> str:
    if given.lower() not in LAYOUTS:
        raise UsageError(f"layout = {given!r} is not one of {', '.join(LAYOUTS)}", hint="the layout of the artefact")
    return given.lower()


def _declared(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options that frontends and backends declare; files of arrays become paths.

    Choices may be in any case, as on the command line.
    """
    known = plugin.options()
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"there is no option {name}", hint=f"known are {', '.join(sorted(known))}")
        option = known[name]
        if isinstance(option.default, dict):
            found[name] = Path(value)
        elif isinstance(value, str) and option.choices:
            found[name] = next((c for c in option.choices if str(c).lower() == value.lower()), value)
        else:
            found[name] = float(value) if isinstance(option.default, float) else value
    return found
