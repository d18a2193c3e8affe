"""Exported programs of the newest schema with one lie each: dtypes, sizes, graphs, payloads, classes, calls."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name, members, stored
from tests.support.hostile import PROTO2, STOP, called, text, touch

GOOD = FIXTURES / "mnist_cnn.pt2"
MODEL, WEIGHTS = "mnist_cnn/models/model.json", "mnist_cnn/data/weights/model_weights_config.json"
CONSTANTS = "mnist_cnn/data/constants/model_constants_config.json"
MOST, LONG = (1 << 63) - 1, "x" * 100_000
LINES = "a\nPASS  error 0\n\x1b[31m\u202e"
Change = Callable[[Any], object]
"""Changes a parsed JSON document in place."""


def _graph(document: Any) -> Any:
    return document["graph_module"]["graph"]


def _node(document: Any, number: int = 0) -> Any:
    return _graph(document)["nodes"][number]


def _tensors(**values: Any) -> Change:
    """Return a change that sets these fields in the description of each tensor of the graph."""

    def change(document: Any) -> None:
        for meta in _graph(document)["tensor_values"].values():
            meta.update(copy.deepcopy(values))

    return change


def _argument(place: int, value: Any, node: int = 0) -> Change:
    """Return a change of one argument of a node."""
    return lambda document: _node(document, node)["inputs"][place].update(arg=value)


def _more(name: str, value: Any, node: int = 0) -> Change:
    """Return a change that adds an argument to a node."""
    return lambda document: _node(document, node)["inputs"].append({"name": name, "arg": value, "kind": 2})


def descriptions() -> dict[str, Change]:
    """Return false descriptions of tensors, devices and sizes."""
    huge = {"sizes": [{"as_int": 1 << 40}], "strides": [{"as_int": 1}]}
    return {
        **{f"tensors of dtype {n}": _tensors(dtype=n) for n in (0, -1, 9, 27, 28, 33, 35, 99, 1 << 40, "7", None, [7])},
        **{f"tensors of layout {n}": _tensors(layout=n) for n in (0, 1, 2, 6, 99, -1)},
        "tensors of 2^40": _tensors(**huge),
        "tensors of 2^63": _tensors(sizes=[{"as_int": MOST}] * 3, strides=[{"as_int": 1}] * 3),
        "tensors below zero": _tensors(sizes=[{"as_int": -1}], strides=[{"as_int": -1}]),
        "tensors of 100,000 dims": _tensors(sizes=[{"as_int": 1}] * 100_000, strides=[{"as_int": 1}] * 100_000),
        "tensors of fewer strides": _tensors(strides=[]),
        "tensors of an offset of 2^62": _tensors(storage_offset={"as_int": 1 << 62}),
        "tensors of an expression": _tensors(sizes=[{"as_expr": {"expr_str": "s0*s0", "hint": {"as_int": 1 << 40}}}]),
        "tensors of no size": _tensors(sizes=[{}], strides=[{}]),
        "tensors of two sizes in one": _tensors(sizes=[{"as_int": 1, "as_expr": {"expr_str": "s0", "hint": None}}]),
        "tensors of a meta device": _tensors(device={"type": "meta", "index": None}),
        "tensors of a device 2^40": _tensors(device={"type": "cuda", "index": 1 << 40}),
        "tensors of a device of lines": _tensors(device={"type": LINES, "index": None}),
        "no descriptions": lambda d: _graph(d).update(tensor_values={}),
        "descriptions that are a list": lambda d: _graph(d).update(tensor_values=[]),
        "a description of a long name": lambda d: _graph(d)["tensor_values"].update(
            {LONG: _graph(d)["tensor_values"]["input"]}),
        "numbers of 2^70": lambda d: _graph(d).update(sym_int_values={"n": {"as_int": 1 << 70}}),
        "an opset of 2^40": lambda d: d.update(opset_version={"aten": 1 << 40}),
        **{f"a schema of {major}.{minor}": lambda d, major=major, minor=minor: d.update(
            schema_version={"major": major, "minor": minor})
           for major, minor in ((9, 0), (1 << 40, 0), (-1, 5), (8, 1 << 40), (7, 1))},
    }  # fmt: skip


def _graphs() -> dict[str, Change]:
    """Return graphs with circles, values from nowhere, thousands of parts, or graphs in graphs."""

    def circle(document: Any) -> None:
        _node(document, 1)["inputs"][0]["arg"]["as_tensor"]["name"] = "relu_1"

    def own_output(document: Any) -> None:
        _node(document)["inputs"][0]["arg"]["as_tensor"]["name"] = "conv2d"

    def twice(document: Any) -> None:
        _node(document, 3)["outputs"][0]["as_tensor"]["name"] = "conv2d"

    def chain(document: Any) -> None:
        graph = _graph(document)
        relu, meta = _node(document, 1), graph["tensor_values"]["relu"]
        for i in range(20_000):
            each = copy.deepcopy({**relu, "metadata": {}, "name": f"n{i}"})
            each["inputs"][0]["arg"]["as_tensor"]["name"] = f"n{i - 1}" if i else "input"
            each["outputs"][0]["as_tensor"]["name"] = f"n{i}"
            graph["tensor_values"][f"n{i}"] = meta
            graph["nodes"].append(each)

    def outputs(document: Any) -> None:
        graph, signature = _graph(document), document["graph_module"]["signature"]
        graph["outputs"] *= 10_000
        signature["output_specs"] *= 10_000
        leaf = {"type": None, "context": None, "children_spec": []}
        told = json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [leaf] * 10_000}])
        document["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = told

    def nested(levels: int, of: str) -> Change:
        def change(document: Any) -> None:
            inner: Any = copy.deepcopy(_graph(document))
            for _ in range(levels):
                outer = {
                    **inner,
                    "nodes": [
                        {
                            "target": "torch.ops.higher_order.cond",
                            "outputs": [{"as_tensors": [{"name": "c"}]}],
                            "metadata": {},
                            "name": "cond",
                            "is_hop_single_tensor_return": None,
                            "inputs": [{"name": "", "kind": 1, "arg": {of: {"name": "g", "graph": inner}}}],
                        }
                    ],
                }
                inner = outer
            document["graph_module"]["graph"] = inner

        return change

    return {
        "a circle": circle, "a node of its own output": own_output, "one value twice": twice,
        "a value from nowhere": _argument(0, {"as_tensor": {"name": "gone"}}),
        "nodes the other way round": lambda d: _graph(d)["nodes"].reverse(),
        "no nodes": lambda d: _graph(d).update(nodes=[]), "no outputs": lambda d: _graph(d).update(outputs=[]),
        "no inputs": lambda d: _graph(d).update(inputs=[]), "20,000 nodes": chain, "10,000 outputs": outputs,
        "inputs twice": lambda d: _graph(d)["inputs"].append(_graph(d)["inputs"][-1]),
        "graphs 100 deep": nested(100, "as_graph"), "graphs 3 deep": nested(3, "as_graph"),
        "no signature": lambda d: d["graph_module"].update(signature={"input_specs": [], "output_specs": []}),
        "a weight twice": lambda d: d["graph_module"]["signature"]["input_specs"][1]["parameter"].update(
            parameter_name="conv1.weight"),
        "a weight that is not there": lambda d: d["graph_module"]["signature"]["input_specs"][0]["parameter"].update(
            parameter_name="gone"),
        "an output that changes a weight": lambda d: d["graph_module"]["signature"]["output_specs"].append(
            {"buffer_mutation": {"arg": {"name": "relu"}, "buffer_name": "gone"}}),
        "an output of a token": lambda d: d["graph_module"]["signature"]["output_specs"].append(
            {"token": {"arg": {"name": "relu"}}}),
        "an input of an object": lambda d: d["graph_module"]["signature"]["input_specs"].append(
            {"custom_obj": {"arg": {"name": "o", "class_fqn": "__torch__.torch.classes._nnapi.Compilation"},
                            "target_fqn": "o"}}),
        "a node of a long name": lambda d: _node(d).update(name=LONG),
        "a node of lines": lambda d: _node(d).update(name=LINES, metadata={
            "stack_trace": LINES, "nn_module_stack": LINES, "torch_fn": LINES, "source_fn_stack": LINES}),
        "notes of a megabyte": lambda d: _node(d).update(metadata={"stack_trace": "x" * (1 << 20),
                                                                  "nn_module_stack": "a,b,c;" * 100_000}),
        "modules without end": lambda d: d["graph_module"].update(module_call_graph=[
            {"fqn": "a." * 50_000, "signature": None}] + d["graph_module"]["module_call_graph"] * 1000),
    }  # fmt: skip


def calls(shell: str) -> dict[str, Change]:
    """Return calls with arguments of another kind, numbers that are too large, objects and foreign operators."""
    relu = [{"name": "self", "arg": {"as_tensor": {"name": "conv2d"}}, "kind": 1}]

    def target(name: str, inputs: Any = None) -> Change:
        return lambda d: _node(d, 1).update(target=name, **({} if inputs is None else {"inputs": inputs}))

    def number(name: str, value: Any) -> Any:
        return {"name": name, "arg": value, "kind": 1}

    sizes = number("size", {"as_ints": [1 << 40, 1 << 20]})
    return {
        **{f"strides of {n}": _more("stride", {"as_ints": [n, n]}) for n in (1 << 40, MOST, 1 << 70, -1, 0)},
        **{f"groups of {n}": _more("groups", {"as_int": n}) for n in (1 << 40, MOST, -1, 0)},
        "a stride of expressions": _more("stride", {"as_sym_ints": [{"as_name": "gone"}, {"as_int": 1 << 40}]}),
        "a stride of a text": _more("stride", {"as_string": shell}),
        "a stride that is not a number": _more("stride", {"as_float": "NaN"}),
        "an argument of no kind": _more("stride", {}),
        "an argument of another kind": _more("stride", {"as_evil": 1}),
        "an argument twice": _more("input", {"as_tensor": {"name": "input"}}),
        "an argument of a long name": _more(LONG, {"as_int": 1}),
        "a million arguments": lambda d: _node(d)["inputs"].extend([number("x", {"as_int": 1})] * 100_000),
        "an object": _argument(0, {"as_custom_obj": {"name": "o", "class_fqn": "__torch__.evil.C"}}, 1),
        "an operator as an argument": _argument(0, {"as_operator": "os.system"}, 1),
        "a graph as an argument": _argument(0, {"as_graph": {"name": "g", "graph": {}}}, 1),
        "a device as an argument": _argument(0, {"as_device": {"type": "cuda", "index": 99}}, 1),
        "dtype 99": target("torch.ops.aten._to_copy.default", [*relu, number("dtype", {"as_scalar_type": 99})]),
        "a tensor of 2^60": target("torch.ops.aten.zeros.default", [sizes]),
        "an expansion to 2^60": target("torch.ops.aten.expand.default", [*relu, sizes]),
        "a repetition of 2^60": target("torch.ops.aten.repeat.default", [*relu, number(
            "repeats", {"as_ints": [1 << 20] * 4})]),
        "an arange of 2^62": target("torch.ops.aten.arange.default", [number("end", {"as_int": 1 << 62})]),
        "a one-hot of 2^60": target("torch.ops.aten.one_hot.default", [*relu, number(
            "num_classes", {"as_int": 1 << 60})]),
        "an unknown overload": target("torch.ops.aten.relu.Odd"),
        "an unknown library": target("torch.ops.evil.relu.default"),
        "an operator of lines": target(f"torch.ops.aten.{LINES}.default"),
        "an operator of a long name": target(f"torch.ops.aten.{LONG}.default"),
        "a file that is read": target("torch.ops.aten.from_file.default", [number(
            "filename", {"as_string": "/etc/passwd"})]),
        "a library that is loaded": target("torch.ops.load_library", [number("path", {"as_string": "/tmp/x.so"})]),
        "a higher-order wrapper": target("torch.ops.higher_order.wrap_with_set_grad_enabled"),
        "a printing one": target("torch.ops.aten._print.default", [number("s", {"as_string": LINES})]),
        "an effect": target("torch.ops.higher_order.with_effects"),
        "a triton kernel": target("torch.ops.higher_order.triton_kernel_wrapper_mutation"),
        "a collective": target("torch.ops._c10d_functional.all_reduce.default", [*relu, number(
            "reduce_op", {"as_string": "sum"}), number("group_name", {"as_string": "0"})]),
    }  # fmt: skip


def _payloads(original: dict[str, bytes], canary: Canary) -> dict[str, dict[str, bytes]]:
    """Return changes of what weights and constants say about their bytes, or pickles in the place of bytes."""
    evil = PROTO2 + called("os", "system", text(touch(canary.marker))) + STOP
    config = json.loads(original[WEIGHTS])
    first = config["config"]["conv1.weight"]

    def weight(**values: Any) -> dict[str, bytes]:
        told = copy.deepcopy(config)
        entry = told["config"]["conv1.weight"]
        entry.update({k: v for k, v in values.items() if k in entry})
        entry["tensor_meta"].update({k: v for k, v in values.items() if k not in entry})
        return {WEIGHTS: json.dumps(told).encode()}

    def constant(entry: Any, **files: bytes) -> dict[str, bytes]:
        beside = {f"mnist_cnn/data/constants/{name}": data for name, data in files.items()}
        return {CONSTANTS: json.dumps({"config": {"c": entry}}).encode(), **beside}

    shared = {name: {**entry, "path_name": "weight_4"} for name, entry in config["config"].items()}
    return {
        **{f"a weight of dtype {n}": weight(dtype=n) for n in (0, 8, 12, 99, -1)},
        "a weight of 2^40": weight(sizes=[{"as_int": 1 << 40}], strides=[{"as_int": 1}]),
        "a weight of a stride of 0": weight(sizes=[{"as_int": 1 << 30}, {"as_int": 8}], strides=[{"as_int": 0}] * 2),
        "a weight of strides of 2^62": weight(strides=[{"as_int": 1 << 62}] * 4),
        "a weight of an offset of 2^40": weight(storage_offset={"as_int": 1 << 40}),
        "a weight of an offset below zero": weight(storage_offset={"as_int": -4}),
        "a weight of layout 1": weight(layout=1),
        "a weight elsewhere": weight(path_name="../../../../../etc/passwd"),
        "a weight of an absolute path": weight(path_name="/etc/passwd"),
        "a weight in the program": weight(path_name="../../models/model.json"),
        "a weight of no file": weight(path_name="gone"),
        "a weight of a long name": weight(path_name=LONG),
        "a weight of lines": weight(path_name=LINES),
        "a weight that is a pickle": {**weight(use_pickle=True), "mnist_cnn/data/weights/weight_0": evil},
        "weights of one payload": {WEIGHTS: json.dumps({"config": shared}).encode()},
        "10,000 weights of one payload": {WEIGHTS: json.dumps({"config": {
            **config["config"], **{f"w{i}": {**first, "path_name": "weight_4"} for i in range(10_000)}}}).encode()},
        "no configuration of weights": {WEIGHTS: b"{}"},
        "a configuration of brackets": {WEIGHTS: b"[" * 100_000},
        "a constant that is a pickle": constant({**first, "path_name": "tensor_0", "use_pickle": True}, tensor_0=evil),
        "a constant that is an object": constant({**first, "path_name": "custom_obj_0", "use_pickle": False},
                                                 custom_obj_0=evil),
        "an opaque constant": constant({**first, "path_name": "opaque_obj_0", "use_pickle": True}, opaque_obj_0=evil),
        "extra files that go up": {"mnist_cnn/extra/../../../x": b"x"},
        "an archive of version 10^30": {"mnist_cnn/archive_version": b"1" + b"0" * 30},
        "an archive of another format": {"mnist_cnn/archive_format": b"pt3"},
        "models of several names": {f"mnist_cnn/models/{i}.json": original[MODEL] for i in range(200)},
        "a second model of a long name": {f"mnist_cnn/models/{LONG[:60_000]}.json": original[MODEL]},
    }  # fmt: skip


def program_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each program with one change."""
    original = members(GOOD)
    changes = descriptions() | _graphs() | calls(f"__import__('os').system('touch {canary.marker}')")
    for name, change in changes.items():
        document = json.loads(original[MODEL])
        change(document)
        content = original | {MODEL: json.dumps(document).encode()}
        yield Case(name, stored(folder / f"{file_name(name)}.pt2", content), good=GOOD)
    for name, parts in _payloads(original, canary).items():
        yield Case(name, stored(folder / f"payload_{file_name(name)}.pt2", original | parts), good=GOOD)
