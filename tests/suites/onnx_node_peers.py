"""Compare convert with other ONNX-to-PyTorch converters on the official ONNX cases, by outcome.

    python tests/suites/onnx_node_peers.py --python PYTHON [--only NAME] [--jobs 2] [--json FILE]

PYTHON is the interpreter of an environment with onnx2torch, onnx2pytorch and a torchvision that loads. Each case is
converted with nothing frozen and run. Names, dtypes and shapes must be equal, numbers within the suite's own
tolerances. The outcomes are

    refused      an exception during the conversion; ours names the operator and the reason
    error        an exception while the result runs
    wrong        another result, or another dtype
    disputed     a wrong result for a case whose own expected output has a larger error (`onnx_node_gaps.CONTRADICTED`)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.suites.onnx_node_worker import Answer, run_all, serve

OUTCOMES = ("right", "wrong", "disputed", "refused", "error", "crash")


def answer_of(peer: str, data: bytes, feeds: Sequence[Mapping[str, Any]], outputs: Sequence[str]) -> Answer:
    """Convert the serialized model with a peer, and run it on each input set, in the environment of the peers."""
    import onnx
    import torch

    try:
        module = _CONVERT[peer](onnx.ModelProto.FromString(data))
    except Exception as error:
        return Answer("refused", f"{type(error).__name__}: {error}"[:300])
    try:
        found = []
        with torch.no_grad():
            for feed in feeds:
                result = module(*(_tensor(x) for x in feed.values()))
                results = [result] if len(outputs) == 1 else list(result)
                found.append({name: _array(y) for name, y in zip(outputs, results, strict=True)})
        return Answer("ran", outputs=found)
    except Exception as error:
        return Answer("error", f"{type(error).__name__}: {error}"[:300])


def _onnx2torch(model: Any) -> Any:
    import onnx2torch

    return onnx2torch.convert(model).eval()


def _onnx2pytorch(model: Any) -> Any:
    import onnx2pytorch

    return onnx2pytorch.ConvertModel(model, experimental=True).eval()  # it accepts batch sizes above 1


_CONVERT: dict[str, Callable[[Any], Any]] = {"onnx2torch": _onnx2torch, "onnx2pytorch": _onnx2pytorch}


def _tensor(x: Any) -> Any:
    import ml_dtypes
    import numpy as np
    import torch

    if x is None:
        return None
    if isinstance(x, list):
        return [_tensor(part) for part in x]
    x = np.asarray(x)
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    if x.dtype.name.startswith("float8"):
        return torch.from_numpy(x.view(np.uint8).copy()).view(getattr(torch, x.dtype.name))
    return torch.from_numpy(np.array(x))


def _array(y: Any) -> Any:
    import ml_dtypes
    import numpy as np
    import torch

    if isinstance(y, (list, tuple)):
        return [_array(part) for part in y]
    if not isinstance(y, torch.Tensor):
        return None if y is None else np.asarray(y)
    if y.dtype == torch.bfloat16:
        return y.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if str(y.dtype).startswith("torch.float8"):
        return y.view(torch.uint8).numpy().view(getattr(ml_dtypes, str(y.dtype)[6:]))
    return y.numpy()


def peer_outcomes(peer: str, python: str, chosen: Sequence[Any], jobs: int) -> dict[str, tuple[str, str]]:
    """Return the outcome and message of each case by name."""
    from tests.suites.onnx_nodes import difference

    cases = {case.name: case for case in chosen}
    found: dict[str, tuple[str, str]] = {}

    def done(name: str, answer: Answer) -> None:
        case, status, text = cases[name], answer.status, answer.text
        if status == "ran":
            try:
                pairs = zip(case.data, answer.outputs, strict=True)
                text = next(filter(None, (difference(case, wanted, got) for (_, wanted), got in pairs)), "")
            except Exception as error:  # the result is not even an array of this kind
                text = f"{type(error).__name__}: {error}"
            status = ("disputed" if name in disputed() else "wrong") if text else "right"
        found[name] = ("crash" if status == "timeout" else status, text)

    command = (python, str(Path(__file__).resolve()), "--serve", peer)

    def asked(case: Any) -> tuple[Any, ...]:
        feeds = [inputs for inputs, _ in case.data]
        return case.model.SerializeToString(), feeds, [v.name for v in case.model.graph.output]

    requests = [(case.name, asked(case)) for case in chosen]
    run_all(requests, jobs, {"OMP_NUM_THREADS": "1"}, done, command)
    return found


def our_outcomes(chosen: Sequence[Any], jobs: int) -> dict[str, tuple[str, str]]:
    """Return the outcomes of `--to torch`; a declared gap is a refusal."""
    from tests.suites.onnx_nodes import run_cases

    names = {"pass": "right", "gap": "refused", "timeout": "crash"}
    found = {r.case: (names.get(r.status, r.status), r.text) for r in run_cases(chosen, "torch", jobs=jobs)}
    return found | {k: ("disputed", text) for k, (status, text) in found.items() if text and k in disputed()}


def disputed() -> set[str]:
    """Return the cases whose expected output is known to be wrong, or to depend on rounding."""
    from tests.suites.onnx_node_gaps import CONTRADICTED, UNSTABLE

    return {*CONTRADICTED["torch"], *UNSTABLE}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="of the environment with the peers")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--who", nargs="+", choices=("convert", *_CONVERT), default=["convert", *_CONVERT])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every outcome here")
    parser.add_argument("--serve", choices=_CONVERT, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.serve:
        serve(partial(answer_of, chosen.serve))
        return
    from tests.suites.onnx_node_cases import cases

    found = cases(only=chosen.only)
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    print(f"{len(found)} cases     " + "".join(f"{name:>9}" for name in OUTCOMES), flush=True)
    for who in chosen.who:
        rows[who] = our_outcomes(found, chosen.jobs) if who == "convert" else peer_outcomes(
            who, chosen.python, found, chosen.jobs
        )  # fmt: skip
        counts = Counter(status for status, _ in rows[who].values())
        print(f"{who:<14}" + "".join(f"{counts[name]:>9}" for name in OUTCOMES), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, ensure_ascii=False))


if __name__ == "__main__":
    main()
