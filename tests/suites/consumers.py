"""Run our artefacts in the programs that read them (consumers), and compare with the source's numbers.

    python tests/suites/consumers.py [CONSUMER …] [--environments DIR] [--networks NAME …]

Twenty small PyTorch networks (`consumer_networks.py`) are converted for each consumer (`consumer_rows.py`). The
consumer is installed by pip, npm or Debian's packages into a folder of its own (`consumer_environments.py`; DIR keeps
them), and runs the networks by a script of `consumer_scripts/`. Its outputs are compared with PyTorch's in float64; the
tolerance is eight times the error of PyTorch in float32.

A line for each network goes to stderr, the table to stdout. The exit code is 1 if a result is wrong, if a refusal is
not declared, or if a declared refusal does not happen.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import convert
from convert.errors import ConvertError
from tests.suites.consumer_environments import Environment, NotToBeHad, environment
from tests.suites.consumer_networks import NETWORKS, answers, build, feed, spec
from tests.suites.consumer_rows import CONSUMERS, Consumer
from tests.support.run_targets import SUFFIXES, assert_close

SCRIPTS = Path(__file__).resolve().parent / "consumer_scripts"
SECONDS = 600
RIGHT, WRONG, REFUSED, UNWRITTEN = "right", "wrong", "refused", "not written"


@dataclass(frozen=True)
class Cell:
    """The outcome of one network in one consumer."""

    consumer: str
    network: str
    outcome: str
    text: str = ""


def written(consumer: Consumer, name: str, folder: Path) -> Path:
    """Write the network in the consumer's format. Raises `ConvertError` if that cannot express it."""
    marks = "-".join([consumer.format, *(f"{k}{v}" for k, v in sorted(consumer.options.items())), consumer.batch])
    path = folder / marks / f"{name}.{SUFFIXES[consumer.format]}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        convert.convert(
            build(name), consumer.format, path, inputs=spec(name, consumer.batch), verify=False, **consumer.options
        )
    return path


def measure(consumer: Consumer, made: Environment, name: str, folder: Path) -> Cell:
    """Write, run and judge one network."""
    try:
        path = written(consumer, name, folder)
    except ConvertError as error:
        return Cell(consumer.name, name, UNWRITTEN, str(error).splitlines()[0])
    inputs = feed(name)
    try:
        found = run(consumer, made, path, inputs)
    except subprocess.TimeoutExpired:
        return Cell(consumer.name, name, REFUSED, f"no answer in {SECONDS} s")
    if isinstance(found, str):
        return Cell(consumer.name, name, REFUSED, found)
    single, double = answers(name, *inputs.values())
    try:
        assert_close({"0": single}, found, {"0": double})
    except AssertionError as error:
        return Cell(consumer.name, name, WRONG, str(error).splitlines()[0])
    return Cell(consumer.name, name, RIGHT)


def run(consumer: Consumer, made: Environment, path: Path, inputs: Mapping[str, np.ndarray]) -> dict | str:
    """Return the outputs by index, or an error line."""
    with tempfile.TemporaryDirectory() as place:
        given, told = Path(place, "inputs.json"), Path(place, "outputs.json")
        given.write_text(json.dumps({k: encoded(x) for k, x in inputs.items()}))
        program = ["node"] if consumer.script.endswith(".mjs") else [str(made.python)]
        command = [*program, str(SCRIPTS / consumer.script), str(path), str(given), str(told)]
        variables = made.variables() | dict(consumer.variables)
        done = subprocess.run(
            command, cwd=made.folder, env=variables, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
        if done.returncode or not told.exists():
            return reason(done.stdout + done.stderr) or f"the process ended with {done.returncode}"
        return {k: decoded(entry) for k, entry in json.loads(told.read_text()).items()}


def encoded(array: np.ndarray) -> dict[str, object]:
    """Return an array in the form that the scripts read (`consumer_scripts/arrays.py`)."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def decoded(entry: Mapping[str, object]) -> np.ndarray:
    """Return an array from the form that the scripts write."""
    return np.frombuffer(base64.b64decode(entry["data"]), entry["dtype"]).reshape(entry["shape"])


def reason(output: str) -> str:
    """Return the last line that names an error, or else the last line, without paths."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit|Implemented|Unsupported)\w*: \S", line)]
    return re.sub(r"(/[\w.+-]+){2,}/", "", (named or lines or [""])[-1])[:160]


def faults(consumer: Consumer, cells: Iterable[Cell]) -> list[str]:
    """Return results that are wrong, refusals that are not declared, and declared refusals that did not happen."""
    found = []
    for cell in cells:
        declared = {REFUSED: consumer.refuses, UNWRITTEN: consumer.unwritten}
        words = consumer.refuses.get(cell.network) or consumer.unwritten.get(cell.network)
        expected = declared.get(cell.outcome, {}).get(cell.network)
        if cell.outcome == RIGHT and words:
            found.append(f"{cell.network}: right, and declared not to be ({words})")
        elif cell.outcome != RIGHT and (expected is None or expected not in cell.text):
            found.append(f"{cell.network}: {cell.outcome}: {cell.text}")
    return found


def row(consumer: Consumer, versions: Mapping[str, str], cells: Sequence[Cell]) -> str:
    """Return a row of the table: what is not named is right."""
    right = sum(cell.outcome == RIGHT for cell in cells)
    others: dict[str, list[str]] = {}
    for cell in cells:
        if cell.outcome != RIGHT:
            others.setdefault(f"{cell.outcome}: {cell.text}", []).append(cell.network)
    fixed = [f"batch {consumer.batch}"] if consumer.batch.isdecimal() else []
    form = " ".join([consumer.format, *(f"{k} {v}" for k, v in consumer.options.items()), *fixed])
    told = ", ".join(f"{k} {v}" for k, v in versions.items())
    rest = "; ".join(f"{', '.join(networks)} {text}" for text, networks in others.items())
    return f"| {consumer.name} | {told} | {form} | {right} of {len(cells)} | {rest} |".replace("\n", " ")


def measure_all(
    consumer: Consumer, names: Sequence[str], environments: Path, folder: Path, tell: Callable[[str], None]
) -> tuple[dict[str, str], list[Cell]]:
    """Return the versions and a cell for each network. Raises `NotToBeHad`."""
    made = environment(consumer.needs, environments / re.sub(r"\W+", "-", consumer.name.lower()))
    cells = []
    for name in names:
        cells.append(measure(consumer, made, name, folder))
        tell(f"{consumer.name:20}{name:12}{cells[-1].outcome:12}{cells[-1].text}")
    return made.versions(), cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="consumers; by default all of them")
    parser.add_argument("--environments", type=Path, metavar="DIR", help="where they are installed, and kept")
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    chosen = parser.parse_args(arguments)
    known = {c.name: c for c in CONSUMERS}
    if unknown := [name for name in chosen.names if name not in known]:
        parser.error(f"there is no consumer {unknown[0]!r}: {', '.join(known)}")
    print("| consumer | versions | written as | right | otherwise |\n|---|---|---|---|---|")
    failed = False
    with tempfile.TemporaryDirectory() as place:
        environments = (chosen.environments or Path(place, "environments")).resolve()
        for consumer in [known[n] for n in chosen.names] or CONSUMERS:
            try:
                versions, cells = measure_all(
                    consumer,
                    chosen.networks,
                    environments,
                    Path(place, "models"),
                    lambda line: print(line, file=sys.stderr),
                )
            except NotToBeHad as why:
                print(f"| {consumer.name} | not to be had: {why} | | | |", flush=True)
                continue
            print(row(consumer, versions, cells), flush=True)
            for text in faults(consumer, cells):
                failed = True
                print(f"{consumer.name}: {text}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
