"""The imports found in a pickle without loading it, compared with those of Python's own unpickler."""

from __future__ import annotations

import collections
import datetime
import decimal
import importlib
import io
import pathlib
import pickle
import pkgutil
import random
import subprocess
import sys
import types
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from convert import limits
from convert.errors import BadInput
from convert.files import pickle_opcodes, pickle_scan
from tests.support import hostile
from tests.support.work import at_most_calls

ALLOWED_BY_TORCH = torch._weights_only_unpickler._get_allowed_globals()


class Recorder(pickle.Unpickler):
    """Python's unpickler, which records what it imports; storages are stand-ins."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.seen: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        self.seen.append(super().find_class(module, name))
        if module == "torch._utils":  # needs real storages
            return lambda *args: torch.nn.Parameter(torch.zeros(1))
        return self.seen[-1]

    def persistent_load(self, pid: Any) -> Any:
        return pid[1] if pid[0] == "module" else None


def _assert_imports(names: Sequence[str], seen: list[Any]) -> None:
    """Assert that `names` name exactly the objects that the unpickler imported."""
    named = []
    for name in names:
        module, _, attribute = name.rpartition(".")
        named.append(getattr(importlib.import_module(module), attribute))
    assert {id(value) for value in named} == {id(value) for value in seen}


def _layers() -> list[torch.nn.Module]:
    """Return one layer of each class of torch.nn that a few usual arguments construct, and some compositions."""
    made = []
    for layer in vars(torch.nn).values():
        if not (isinstance(layer, type) and issubclass(layer, torch.nn.Module)) or layer.__name__.startswith("Lazy"):
            continue
        if layer is torch.nn.DataParallel:
            continue
        for arguments in [(), (4,), (4, 4), (4, 4, 4), (4, 2), (1, 2, 3, 4), (4, [1, 2])]:
            try:
                made.append(layer(*arguments))
                break
            except Exception:
                continue
    encoder = torch.nn.TransformerEncoderLayer(8, 2, activation="gelu")
    made.append(torch.nn.DataParallel(torch.nn.Linear(2, 2)))
    return [*made, torch.nn.Sequential(torch.nn.TransformerEncoder(encoder, 2)), torch.nn.Linear(2, 2).half(),
            torch.nn.Linear(2, 2).to(torch.float8_e4m3fn)]  # fmt: skip


@pytest.mark.slow
def test_plain_modules_need_nothing_that_is_not_allowed(tmp_path: Path) -> None:
    warnings.simplefilter("ignore")
    layers = _layers()
    assert len(layers) > 120
    for index, layer in enumerate(layers):
        path = tmp_path / "layer.pt"
        torch.save(layer, path, _use_new_zipfile_serialization=index % 2 == 0)
        data = pickle_scan.torch_pickle_bytes(path)
        found = pickle_opcodes.read_pickle(data)
        recorder = Recorder(data)
        recorder.load()
        _assert_imports(found.globals, recorder.seen)
        assert pickle_scan.unsafe_globals(found.globals) == [], layer
        assert pickle_scan.unsafe_calls(found.called) == [], layer
        assert pickle_scan.top_level_class(data) == f"{type(layer).__module__}.{type(layer).__name__}"


def test_what_may_be_called_is_what_torch_itself_calls() -> None:
    assert set(ALLOWED_BY_TORCH) >= pickle_scan.CALLABLE
    beyond = pickle_scan.PLAIN_MODULE - set(ALLOWED_BY_TORCH)
    named = {"torch.nn.functional.relu", "torch.nn.functional.gelu", "torch._C._nn.gelu", pickle_scan.OLD_BACKEND}
    assert beyond == named | {
        name for name in pickle_scan.PLAIN_MODULE if name.startswith("torch.cuda.Q")}  # fmt: skip


@pytest.mark.parametrize("protocol", range(6))
def test_globals_of_any_protocol(protocol: int) -> None:
    thing = {"a": collections.OrderedDict(x={1, 2}), "b": [decimal.Decimal(1), datetime.date(2020, 1, 1)],
             "c": b"\xff" * 300, "d": pathlib.PurePosixPath("x"), "e": frozenset("ab"), "f": range(3),
             "g": (1, 2.5, None, True, 10**30),
             "h": collections.Counter("aab"), "i": int, "j": collections.OrderedDict}  # fmt: skip
    thing["k"] = thing
    data = pickle.dumps(thing, protocol)
    recorder = Recorder(data)
    recorder.load()
    _assert_imports(pickle_scan.pickled_globals(data), recorder.seen)
    assert pickle_scan.top_level_class(data) == "dict"


def test_top_level(tmp_path: Path) -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2))
    cases = [(layer, "torch.nn.modules.container.Sequential"), (layer.state_dict(), "collections.OrderedDict"),
             ({}, "dict"), ([1], "list"), ((1,), "tuple"), (torch.ones(1), "torch.Tensor"), ("x", "str"),
             (None, "NoneType"), (torch.float32, "torch.float32"),
             (layer[0].weight, "torch.nn.parameter.Parameter")]  # fmt: skip
    for thing, name in cases:
        for zipped in (True, False):
            torch.save(thing, tmp_path / "thing.pt", _use_new_zipfile_serialization=zipped)
            assert pickle_scan.top_level_class(pickle_scan.torch_pickle_bytes(tmp_path / "thing.pt")) == name


@pytest.mark.parametrize("name", hostile.pickles(Path("marker")))
def test_hostile_pickles_are_seen_through(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "executed"
    data, harmful = hostile.pickles(marker)[name]
    assert harmful in pickle_scan.pickled_globals(data)
    assert harmful in pickle_scan.unsafe_globals(pickle_scan.pickled_globals(data))
    assert not marker.exists()


@pytest.mark.slow
def test_the_hostile_pickles_are_real(tmp_path: Path) -> None:
    """Most of them do execute their code when pickle loads them, in another process."""
    code = (
        "import pathlib, pickle, sys\n"
        "from tests.support import hostile\n"
        "marker = pathlib.Path(sys.argv[1])\n"
        "for name, (data, _) in hostile.pickles(marker).items():\n"
        "    marker.unlink(missing_ok=True)\n"
        "    try:\n"
        "        pickle.loads(data)\n"
        "    except Exception:\n"
        "        pass\n"
        "    if marker.exists():\n"
        "        print(name)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "executed")]
    run = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    executed = set(run.stdout.splitlines())
    assert executed >= {"os.system", "posix.system", "eval", "eval by its Python 2 name", "INST", "OBJ", "STACK_GLOBAL",
                        "STACK_GLOBAL from the memo", "STACK_GLOBAL with DUP and POP", "a computed name",
                        "before the object", "in the state of a layer", "a pickle in a pickle"}  # fmt: skip


def test_a_constructor_is_not_to_be_called() -> None:
    data = hostile.PROTO2 + hostile.called("torch.nn.modules.linear", "Linear", b"J\x00\x00\x00\x7f") + hostile.STOP
    found = pickle_opcodes.read_pickle(data)
    assert pickle_scan.unsafe_globals(found.globals) == []
    assert pickle_scan.unsafe_calls(found.called) == ["torch.nn.modules.linear.Linear"]


def test_what_is_spelt_like_a_layer() -> None:
    layers = ["torch.nn.modules.linear.Linear", "torch.nn.modules.conv.Conv2d", "torch.nn.modules.rnn.GRU"]
    others = ["torch.nn.modules.module.register_module_forward_hook", "torch.nn.modules.utils.import_module",
              "torch.nn.modules.module.os.system", "torch.nn.modules._functions.Function", "torch.nn.modules.linear.F",
              "torch.nn.modules.Linear", "torch.nn.modules.linear._Linear", "torch.nn.modules.linear.Linear.forward",
              "torch.nn.modules.linear.Linear\n", "torch.nn.modules.linear.Lïnear", "xtorch.nn.modules.linear.Linear",
              "torch.nn.modules..Linear", "torch.nn.quantized.modules.linear.Linear", "os.system", ""]  # fmt: skip
    assert pickle_scan.unsafe_globals([*layers, *others]) == others


def test_names_spelt_like_layers_hold_no_functions() -> None:
    """The reader must check that each is a Module; this tests that the spelling alone admits no function or module."""
    for file in pkgutil.iter_modules(torch.nn.modules.__path__):
        module = importlib.import_module(f"torch.nn.modules.{file.name}")
        for name, value in vars(module).items():
            if pickle_scan.is_layer(f"{module.__name__}.{name}") and name != "NamedTuple":
                assert not isinstance(value, types.FunctionType | types.ModuleType | types.BuiltinFunctionType), name


@pytest.mark.parametrize("name", hostile.broken_pickles())
def test_broken_pickles(name: str) -> None:
    data = hostile.broken_pickles()[name]
    for look in (pickle_scan.pickled_globals, pickle_scan.top_level_class):
        with pytest.raises(BadInput, match="truncated or corrupt") as raised:
            look(data)
        assert raised.value.hint


def test_changed_bytes_never_crash(fixtures: Path) -> None:
    data = pickle_scan.torch_pickle_bytes(fixtures / "mnist_cnn.pt")
    source = random.Random(0)
    seen = 0
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(source.randint(1, 4)):
            changed[source.randrange(len(changed))] = source.randrange(256)
        try:
            pickle_scan.saved_content(pickle_opcodes.read_pickle(bytes(changed)).top)
            seen += 1
        except BadInput:
            pass
    assert 0 < seen < 300


@pytest.mark.slow
def test_each_container_of_a_pickle_is_visited_once() -> None:
    deep = hostile.PROTO2 + b"]" * 100_000 + b"a" * 99_999 + hostile.STOP
    marks = hostile.PROTO2 + b"(" * 100_000 + b"t" * 100_000 + hostile.STOP
    key = hostile.text("k")
    # Each dict holds the one before a thousand times: walking every path would visit 10**9 of them.
    shared = hostile.PROTO2 + hostile.EMPTY_DICT + b"q\x00"
    for level in range(3):
        shared += hostile.EMPTY_DICT + b"(" + (key + b"h" + bytes([level])) * 1000 + b"uq" + bytes([level + 1])
    with at_most_calls(20_000_000):
        assert pickle_scan.top_level_class(deep) == "list"
        assert pickle_scan.top_level_class(marks) == "tuple"
        assert pickle_scan.saved_content(pickle_opcodes.read_pickle(shared + hostile.STOP).top).startswith("a dict")


@pytest.mark.parametrize("name", hostile.unfolding_pickles())
def test_pickles_that_unfold_without_end(name: str) -> None:
    few = pickle_opcodes.read_pickle(hostile.unfolding_pickles(10)[name])
    pickle_opcodes.refuse_unfolding(few.top)
    many = pickle_opcodes.read_pickle(hostile.unfolding_pickles(30)[name])
    with pytest.raises(BadInput, match="hold one another more than 4,000,000 times"):
        pickle_opcodes.refuse_unfolding(many.top)


def test_lists_of_a_type_that_unfold_without_end() -> None:
    """The lists are written as TorchScript writes them."""
    typed = hostile.imported("torch.jit._pickle", "restore_type_tag") + b"(]q\x02(h\x01h\x01e"
    level = b"q\x010" + typed + hostile.text("List[Any]") + b"t" + hostile.REDUCE
    data = hostile.PROTO2 + hostile.text("a") + level * 30 + hostile.STOP
    with pytest.raises(BadInput, match="hold one another"):
        pickle_opcodes.refuse_unfolding(pickle_opcodes.read_pickle(data).top)


def test_values_that_lead_back_to_themselves_are_counted_once() -> None:
    layer = hostile.imported("torch.nn.modules.linear", "Linear") + hostile.EMPTY_TUPLE + hostile.NEWOBJ
    back = layer + b"q\x00}" + hostile.text("parent") + b"]h\x00as" + hostile.BUILD
    circle = b"]q\x00h\x00a"
    for data in (back, circle):
        pickle_opcodes.refuse_unfolding(pickle_opcodes.read_pickle(hostile.PROTO2 + data + hostile.STOP).top)


def test_sizes_of_tuples_stay_small() -> None:
    """A count that doubles with each level has as many bits as there are levels."""
    doubled = hostile.PROTO2 + b"N" + b"2\x86" * 20_000 + hostile.STOP
    assert pickle_opcodes.read_pickle(doubled).top.size < 1 << 64


def test_too_many_opcodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PICKLE_OPCODES", 1000)
    with pytest.raises(BadInput, match="more than 1,000 opcodes"):
        pickle_opcodes.read_pickle(hostile.PROTO2 + b"N0" * 1000 + b"N.")
