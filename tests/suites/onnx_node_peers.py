"""Compare convert with other converters from ONNX on the official ONNX cases, by outcome.

    python tests/suites/onnx_node_peers.py --python PYTHON [--to torch|tflite] [--only NAME] [--every N] [--freeze]
        [--jobs 2] [--json FILE]

| `--to` | peers | environment of PYTHON |
|---|---|---|
| `torch` | onnx2torch, onnx2pytorch | both, and a torchvision that loads |
| `tflite` | onnx2tf with `flatbuffer_direct`, run by LiteRT | onnx2tf |

Each case is converted with nothing frozen (or `--freeze`, see `onnx_nodes.py`) and run. Names, dtypes and shapes must
be equal, numbers within the suite's own tolerances. onnx2tf keeps the shapes of inputs, and its outputs may have any
order of axes. Its models have the IR version that its onnx knows. The outcomes are

    refused      an exception during the conversion; ours names the operator and the reason
    error        an exception while the result runs, also for an operator that no runtime has
    wrong        another result, or another dtype
    disputed     a wrong result for a case whose own expected output has a larger error (`onnx_node_gaps.CONTRADICTED`)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import permutations, repeat
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.suites.onnx_node_worker import Answer, run_all, serve

OUTCOMES = ("right", "wrong", "disputed", "refused", "error", "crash")


Feeds = Sequence[Mapping[str, Any]]


def answer_of_module(convert: Callable[[Any], Any], data: bytes, feeds: Feeds, outputs: Sequence[str]) -> Answer:
    """Convert the serialized model to a module, and run it on each input set, in the environment of the peers."""
    import onnx
    import torch

    try:
        module = convert(onnx.ModelProto.FromString(data))
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


def answer_of_onnx2tf(data: bytes, feeds: Feeds, outputs: Sequence[str]) -> Answer:
    """Convert the serialized model with onnx2tf, and run the file with LiteRT on each input set."""
    import onnx
    from ai_edge_litert.interpreter import Interpreter

    model = onnx.ModelProto.FromString(data)
    model.ir_version = min(model.ir_version, onnx.IR_VERSION)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/net.onnx")
        os.chdir(folder)  # it looks for files beside the working directory
        try:
            import onnx2tf

            onnx2tf.convert(
                input_onnx_file_path=f"{folder}/net.onnx", output_folder_path=f"{folder}/out", non_verbose=True,
                copy_onnx_input_output_names_to_tflite=True, keep_shape_absolutely_input_names=list(feeds[0]),
            )  # fmt: skip
            (file,) = Path(folder, "out").glob("*float32.tflite")
            content = file.read_bytes()
        except (Exception, SystemExit) as error:
            return Answer("refused", f"{type(error).__name__}: {error}"[:300])
        finally:
            os.chdir("/")
    try:
        interpreter = Interpreter(model_content=content)
        return Answer("ran", outputs=[_run_lite(interpreter, feed, outputs) for feed in feeds])
    except Exception as error:
        return Answer("error", f"{type(error).__name__}: {error}"[:300])


def _run_lite(interpreter: Any, feed: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """Run a file; match its inputs and outputs by name, and by place where a name is not found."""
    import numpy as np

    given = interpreter.get_input_details()
    by_name = {detail["name"].removeprefix("serving_default_").partition(":")[0]: detail for detail in given}
    if not set(by_name) <= set(feed):
        by_name = dict(zip(feed, given, strict=True))
    arrays = {detail["index"]: np.asarray(feed[name]) for name, detail in by_name.items()}
    for index, array in arrays.items():
        interpreter.resize_tensor_input(index, array.shape)
    interpreter.allocate_tensors()
    for index, array in arrays.items():
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    found = interpreter.get_output_details()
    by_name = {detail["name"].partition(":")[0]: detail for detail in found}
    chosen = [by_name[name] for name in outputs] if set(outputs) <= set(by_name) else found
    return {name: interpreter.get_tensor(d["index"]) for name, d in zip(outputs, chosen, strict=True)}


PEERS: dict[str, dict[str, Callable[..., Answer]]] = {
    "torch": {
        "onnx2torch": partial(answer_of_module, _onnx2torch),
        "onnx2pytorch": partial(answer_of_module, _onnx2pytorch),
    },
    "tflite": {"onnx2tf": answer_of_onnx2tf},
}
"""By format, what answers a case for each peer."""


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

    to = next(form for form, peers in PEERS.items() if peer in peers)
    cases = {case.name: case for case in chosen}
    found: dict[str, tuple[str, str]] = {}

    def compare(case: Any, data: tuple[Any, Sequence[Any]], got: dict[str, Any]) -> str:
        return difference(case, data[1], _fitted(case, data[1], got) if peer == "onnx2tf" else got)

    def done(name: str, answer: Answer) -> None:
        case, status, text = cases[name], answer.status, answer.text
        if status == "ran":
            try:
                text = next(filter(None, map(compare, repeat(case), case.data, answer.outputs)), "")
            except Exception as error:  # the result is not even an array of this kind
                text = f"{type(error).__name__}: {error}"
            status = ("disputed" if name in disputed(to) else "wrong") if text else "right"
        found[name] = ("crash" if status == "timeout" else status, text)

    command = (python, str(Path(__file__).resolve()), "--serve", peer)

    def asked(case: Any) -> tuple[Any, ...]:
        feeds = [inputs for inputs, _ in case.data]
        return case.model.SerializeToString(), feeds, [v.name for v in case.model.graph.output]

    requests = [(case.name, asked(case)) for case in chosen]
    run_all(requests, jobs, {"OMP_NUM_THREADS": "1"}, done, command)
    return found


def _fitted(case: Any, wanted: Sequence[Any], got: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs in the order of axes that agrees with the expected ones, if there is one."""
    import numpy as np

    from tests.suites.onnx_nodes import unlike

    found = dict(got)
    for name, want in zip([v.name for v in case.model.graph.output], wanted, strict=True):
        array, want = np.asarray(got[name]), np.asarray(want)
        orders = permutations(range(array.ndim)) if array.ndim in (3, 4, 5) else ()
        fitting = (array.transpose(order) for order in orders)
        found[name] = next((y for y in fitting if y.shape == want.shape and not unlike(y, want, case)), array)
    return found


def our_outcomes(chosen: Sequence[Any], to: str, jobs: int) -> dict[str, tuple[str, str]]:
    """Return the outcomes of `--to torch` or `--to tflite`; a declared gap is a refusal."""
    from tests.suites.onnx_nodes import run_cases

    names = {"pass": "right", "gap": "refused", "timeout": "crash"}
    found = {r.case: (names.get(r.status, r.status), r.text) for r in run_cases(chosen, to, jobs=jobs)}
    return found | {k: ("disputed", text) for k, (status, text) in found.items() if text and k in disputed(to)}


def disputed(to: str) -> set[str]:
    """Return the cases whose expected output is known to be wrong, or to depend on rounding."""
    from tests.suites.onnx_node_gaps import CONTRADICTED, UNSTABLE

    return {*CONTRADICTED[to], *UNSTABLE}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="of the environment with the peers")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--to", choices=PEERS, default="torch")
    parser.add_argument("--who", nargs="+", help="`convert` or peers (default: all of them)")
    parser.add_argument("--sets", nargs="+", help="of cases, as for `onnx_nodes.py` (default: all)")
    parser.add_argument("--every", type=int, default=1, help="take one case of so many")
    parser.add_argument("--freeze", action="store_true", help="inputs that say how and not what become constants")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every outcome here")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.serve:
        serve(next(peers[chosen.serve] for peers in PEERS.values() if chosen.serve in peers))
        return
    from tests.suites.onnx_node_cases import SETS, cases
    from tests.suites.onnx_node_frozen import all_frozen

    found = cases(chosen.sets or SETS, chosen.only)[:: chosen.every]
    found = all_frozen(found) if chosen.freeze else found
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    print(f"{len(found)} cases     " + "".join(f"{name:>9}" for name in OUTCOMES), flush=True)
    for who in chosen.who or ("convert", *PEERS[chosen.to]):
        rows[who] = our_outcomes(found, chosen.to, chosen.jobs) if who == "convert" else peer_outcomes(
            who, chosen.python, found, chosen.jobs
        )  # fmt: skip
        counts = Counter(status for status, _ in rows[who].values())
        print(f"{who:<14}" + "".join(f"{counts[name]:>9}" for name in OUTCOMES), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, ensure_ascii=False))


if __name__ == "__main__":
    main()
