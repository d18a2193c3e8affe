"""The options of the command line that say how to verify, shared by `convert` and `convert verify`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from convert.errors import ConvertError, UsageError

if TYPE_CHECKING:
    from convert.parity.method import VerifyMethod
    from convert.report import Report
    from convert.runners.process import Limits


@dataclass(frozen=True)
class VerifyOptions:
    """What the options said: inputs (arrays, or pictures and their preparation), bounds, and files to write."""

    arrays: Path | None
    images: tuple[Path, ...]
    image_as: str
    seeds: int
    rtol: float | None
    atol: float | None
    save_inputs: Path | None
    page: Path | None
    timed: bool = False

    def method(self, limits: Limits) -> VerifyMethod:
        """How to verify, with runs of models under `limits`.

        Raises `UsageError` for contradicting options and numbers that make no verdict, `BadInput` for unreadable
        inputs.
        """
        from convert.parity.method import VerifyMethod

        if self.arrays is not None and self.images:
            raise UsageError("--inputs and --image both give inputs", hint="leave one of them out")
        if self.image_as and not self.images:
            raise UsageError("--image-as says how pictures become inputs, and there are none", hint="give --image FILE")
        if self.seeds < 1:
            raise UsageError(f"--seeds {self.seeds} leaves no inputs to compare on", hint="give 1 or more")
        for name, bound in (("--rtol", self.rtol), ("--atol", self.atol)):
            if bound is not None and not 0 <= bound < math.inf:
                raise UsageError(f"{name} {bound:g} is no tolerance", hint="give a number that is not negative")
        return VerifyMethod(
            arrays=self._given_arrays(),
            seeds=self.seeds,
            rtol=self.rtol,
            atol=self.atol,
            limits=limits,
            profile=self.page is not None,
            time=self.timed,
            save=self.save_inputs,
        )

    def check_places(self, read: Sequence[Path]) -> None:
        """Raises `UsageError` where a file to write would destroy what is `read`, or what this tool has not written."""
        from convert.files.side_files import check_side_file, is_arrays, is_page

        given = [*read, *self.images, *([self.arrays] if self.arrays is not None else [])]
        if self.page is not None:
            check_side_file(self.page, is_page, "--report", given)
        if self.save_inputs is not None:
            check_side_file(self.save_inputs, is_arrays, "--save-inputs", given)

    def places(self) -> dict[Path, str]:
        """The files to write, and what each is."""
        written = {"report": self.page, "inputs": self.save_inputs}
        return {path: what for what, path in written.items() if path is not None}

    def _given_arrays(self) -> dict[Any, Any] | None:
        if self.images:
            from convert.parity.inputs.image_inputs import parse_preparation, picture_batch

            return picture_batch(self.images, parse_preparation(self.image_as))
        if self.arrays is None:
            return None
        if not self.arrays.exists():
            from convert.files.missing import near_path

            near = near_path(self.arrays)
            hint = f"did you mean {near}? " if near else ""
            hint += "--inputs gives arrays to verify on; to name or describe an input of the model, --input NAME"
            raise UsageError(f"there is no file or folder {self.arrays}", hint=hint)
        from convert.parity.inputs.given_arrays import load_inputs

        return dict(load_inputs(self.arrays))

    def write(self, done: Report, error: ConvertError | None = None) -> None:
        """Write the page that --report asked for; after an error it tells that."""
        if self.page is not None:
            from convert.pages.verification import write_page

            write_page(done, self.page, error)


_FILE = click.Path(path_type=Path, exists=True)

_OPTIONS = [
    click.option("--inputs", "arrays", type=click.Path(path_type=Path), metavar="FILE.npz",
                 help="Verify on these inputs: an .npz, or a folder of .npy."),
    click.option("--image", "images", type=_FILE, multiple=True, metavar="FILE",
                 help="Verify on this picture; repeatable, all of them are one batch."),
    click.option("--image-as", default="", metavar="HxW,KEY=VALUE,…",
                 help="How pictures become inputs: 224x224,mean=0.5,std=0.5,layout=nchw,channels=rgb,scale=255."),
    click.option("--save-inputs", type=click.Path(path_type=Path), metavar="FILE.npz",
                 help="Write the inputs that the verdict was made on."),
    click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE.html",
                 help="Write a page with the verdict, plots of the errors and the worst elements."),
    click.option("--time", "timed", is_flag=True, help="Measure how long runs of source and target take, too."),
    click.option("--seeds", default=3, show_default=True, help="How many sets of random inputs."),
    click.option("--rtol", type=float, help="Judge by this relative tolerance instead of the noise floor."),
    click.option("--atol", type=float, help="Judge by this absolute tolerance instead of the noise floor."),
]  # fmt: skip


def with_verify_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options, which it takes together as `verify_options`."""

    @functools.wraps(command)
    def with_options(
        *args: Any,
        arrays: Path | None,
        images: tuple[Path, ...],
        image_as: str,
        seeds: int,
        rtol: float | None,
        atol: float | None,
        save_inputs: Path | None,
        page: Path | None,
        timed: bool,
        **rest: Any,
    ) -> Any:
        verify_options = VerifyOptions(arrays, images, image_as, seeds, rtol, atol, save_inputs, page, timed)
        return command(*args, verify_options=verify_options, **rest)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options
