"""The command-line options that say how to verify, shared by `convert` and `convert verify`."""

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
    from convert.outcome.report import Report
    from convert.parity.method import VerifyMethod
    from convert.processes.run_here import Limits


@dataclass(frozen=True)
class VerifyOptions:
    """The values of the options: inputs (arrays, or images and their preparation), bounds, and files to write.

    `output` is the path of `-o`; verbs with that option fill it in.
    """

    arrays: Path | None = None
    images: tuple[Path, ...] = ()
    image_as: str = ""
    seeds: int = 3
    rtol: float | None = None
    atol: float | None = None
    save_inputs: Path | None = None
    page: Path | None = None
    timed: bool = False
    reduced: Path | None = None
    output: Path | None = None

    def method(self, limits: Limits, samples: Sequence[Any] = ()) -> VerifyMethod:
        """Return how to verify, with the `limits` for runs of models. samples: paths from other options, which may hold
        images.

        Raises `UsageError` for contradicting options and for invalid tolerances, and `BadInput` for unreadable inputs.
        """
        from convert.parity.method import VerifyMethod
        from convert.request.samples import image_files

        if self.arrays is not None and self.images:
            raise UsageError("--inputs and --image both give inputs", hint="leave one of them out")
        if self.image_as and not self.images and not any(image_files(p) for p in samples if isinstance(p, Path)):
            raise UsageError(
                "--image-as says how images become inputs, but there are no images", hint="give --image FILE"
            )
        if self.seeds < 1:
            raise UsageError(f"--seeds {self.seeds} leaves no inputs to compare on", hint="give 1 or more")
        for name, bound in (("--rtol", self.rtol), ("--atol", self.atol)):
            if bound is not None and not 0 <= bound < math.inf:
                raise UsageError(f"{name} {bound:g} is not a tolerance", hint="give a number that is not negative")
        return VerifyMethod(
            arrays=self._given_arrays(),
            seeds=self.seeds,
            rtol=self.rtol,
            atol=self.atol,
            limits=limits,
            profile=self.page is not None,
            time=self.timed,
            save=self.save_inputs,
            reduce=self.reduced,
        )

    def check_places(self, read: Sequence[Path]) -> None:
        """Raise `UsageError` if a file to write would overwrite a file in `read`, or one that this tool has not
        written.
        """
        from convert.files.side_files import check_different, check_side_file, is_arrays, is_page

        check_different(self.named_files())
        given = [*read, *self.images, *([self.arrays] if self.arrays is not None else [])]
        if self.page is not None:
            check_side_file(self.page, is_page, "--report", given)
        if self.save_inputs is not None:
            check_side_file(self.save_inputs, is_arrays, "--save-inputs", given)
        if self.reduced is not None:
            from convert.parity.locate.reduced_files import is_reduced, reduced_files

            if self.reduced.suffix != ".onnx":
                hint = f"the file that --reduce writes: --reduce {self.reduced.with_suffix('.onnx')}, or --reduce alone"
                raise UsageError(f"--reduce writes ONNX, but {self.reduced} does not end in .onnx", hint=hint)
            for path in reduced_files(self.reduced):
                check_side_file(path, is_arrays if path.suffix == ".npz" else is_reduced, "--reduce", given)

    def named_files(self) -> list[tuple[str, Path]]:
        """Return the files to write, each with the option that names it."""
        from convert.parity.locate.reduced_files import reduced_files

        named = {"the output": self.output, "--report": self.page, "--save-inputs": self.save_inputs}
        found = [(option, path) for option, path in named.items() if path is not None]
        return found + [("--reduce", path) for path in (reduced_files(self.reduced) if self.reduced else ())]

    def places(self) -> dict[Path, str]:
        """Return the files to write, and what each is."""
        from convert.parity.locate.reduced_files import reduced_files

        written = {"report": self.page, "inputs": self.save_inputs}
        found = {path: what for what, path in written.items() if path is not None}
        return found | ({} if self.reduced is None else dict.fromkeys(reduced_files(self.reduced), ""))

    def _given_arrays(self) -> dict[Any, Any] | None:
        if self.images:
            from convert.request.image_inputs import image_batch, parse_preparation

            return image_batch(self.images, parse_preparation(self.image_as))
        if self.arrays is None:
            return None
        from convert.request.given_inputs import arrays_in

        hint = "--inputs gives arrays to verify on; to name or describe an input of the model, --input NAME"
        return arrays_in(self.arrays, hint)

    def write(self, done: Report, error: ConvertError | None = None) -> None:
        """Write the page that --report requests; after an error the page shows the error."""
        if self.page is not None:
            from convert.pages.verification import write_page

            write_page(done, self.page, error)


_FILE = click.Path(path_type=Path, exists=True)

_OPTIONS = [
    click.option("--inputs", "arrays", type=click.Path(path_type=Path), metavar="FILE.npz",
                 help="Verify on these inputs: an .npz, or a folder of .npy."),
    click.option("--image", "images", type=_FILE, multiple=True, metavar="FILE",
                 help="Verify on this picture; repeatable, and all pictures are one batch."),
    click.option("--image-as", default="", metavar="HxW,KEY=VALUE,…",
                 help="How pictures become inputs: 224x224,mean=0.5,std=0.5,layout=nchw,channels=rgb,scale=255."),
    click.option("--save-inputs", type=click.Path(path_type=Path), metavar="FILE.npz",
                 help="Write the inputs that the verdict was made on."),
    click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE.html",
                 help="Write a page with the verdict, plots of the errors and the worst elements."),
    click.option("--time", "timed", is_flag=True, help="Also measure how long source and target run."),
    click.option("--reduce", "reduced", type=click.Path(path_type=Path), is_flag=False, flag_value="reduced.onnx",
                 metavar="[FILE.onnx]",
                 help="After a FAIL, write the smallest part that still fails and its inputs (default: reduced.onnx)."),
    click.option("--seeds", default=3, show_default=True, help="Number of random input sets."),
    click.option("--rtol", type=float, help="Judge by this relative tolerance instead of the noise floor."),
    click.option("--atol", type=float, help="Judge by this absolute tolerance instead of the noise floor."),
]  # fmt: skip


def with_verify_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them together as `verify_options`."""

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
        reduced: Path | None,
        **rest: Any,
    ) -> Any:
        verify_options = VerifyOptions(arrays, images, image_as, seeds, rtol, atol, save_inputs, page, timed, reduced)
        return command(*args, verify_options=verify_options, **rest)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options
