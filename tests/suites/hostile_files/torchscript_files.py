"""TorchScript archives and exported programs that write, read, loop or grow when they are loaded or run."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name, members, stored

SCRIPTED = FIXTURES / "mnist_cnn_scripted.pt"
EXPORTED = FIXTURES / "mnist_cnn.pt2"


def _entry(content: dict[str, bytes], end: str) -> str:
    return next(name for name in content if name.endswith(end))


def _code(content: dict[str, bytes]) -> str:
    """The entry with the module's forward."""
    return max(
        (n for n in content if n.endswith(".py") and b"def forward" in content[n]), key=lambda n: len(content[n])
    )


def _bodies(canary: Canary) -> dict[str, str]:
    """Statements to be put first in every method."""
    return {
        "aten.save": f'    ops.aten.save((x,), "{canary.marker}")\n',
        "aten.from_file": f'    _0 = torch.from_file("{canary.marker}", True, 1000)\n',
        "a call that reads": '    _0 = torch.from_file("/etc/passwd", False, 100, dtype=0)\n',
        "a loop without end": "    _0 = True\n    while _0:\n      _0 = True\n",
        "a loop of 2^60 rounds": "    _0 = 0\n    for _1 in range(1152921504606846976):\n      _0 = torch.add(_0, 1)\n",
        "a tensor of 2^50": "    _0 = torch.zeros([1125899906842624])\n",
        "a list that grows": "    _0 = [0]\n    while True:\n      _0 = torch.add(_0, _0)\n",
        "a text that grows": '    _0 = "x"\n    while True:\n      _0 = torch.add(_0, _0)\n',
        "a call of itself": "    _0 = (self).forward(x, )\n",
        "prim.PythonOp": '    _0 = ops.prim.PythonOp("os.system")\n',
        "prim.rpc_async": '    _0 = ops.prim.rpc_async("x")\n',
        "prim.FusionGroup": '    _0 = ops.prim.FusionGroup("x")\n',
        "print": '    print("\\x1b[31mred\\u202e")\n',
        "another library": '    _0 = ops.os.system("touch x")\n',
        "profiling": f'    ops.profiler._record_function_enter("{canary.marker}")\n',
        "warnings": '    ops.aten.warn("\\x1b[31mred\\u202e", 2)\n',
        "operators by getattr": f'    _0 = getattr(ops, "image").write_file("{canary.marker}", x,)\n',
        "operators by another name": f'    _0 = ops\n    _1 = _0.image.write_file("{canary.marker}", x,)\n',
        "prim by getattr": '    _0 = getattr(ops.prim, "rpc_async")("x")\n',
        "aten by another name": f'    _0 = ops.aten\n    _1 = _0.save((x,), "{canary.marker}")\n',
        "behind a number that ends with a point": f'    _0 = 0x1.\n    ops.image.write_file("{canary.marker}", x,)\n',
        "a thread that forks": "    _0 = fork((self).forward, x, )\n",
        "classes with a blank": "    _0 = __torch__.torch.classes. _nnapi.Compilation()\n",
        "classes by another name": "    _0 = __torch__.torch\n    _1 = _0.classes\n    _2 = _1._nnapi.Compilation()\n",
        "classes by getattr": '    _0 = getattr(__torch__, "torch")\n    _1 = getattr(_0, "classes").profiling\n',
        "distributed": '    _0 = ops._c10d_functional.all_reduce(x, "sum", "0")\n',
    }


_ENDLESS = """
  def size(self, x: Tensor) -> int:
    _0 = True
    while _0:
      _0 = True
    return 1
"""
_OTHER_NAMES = {
    "a method called torch": "    torch = self\n    _0 = torch.size(x,)\n",
    "a method called int": "    int = (self).size\n    _0 = int(x,)\n",
    "torch by another name": "    _0 = torch\n    _1 = _0.zeros([1125899906842624])\n",
}
"""Statements of a `__setstate__` that call an endless function, or create a tensor, under an innocent name.
"""


def torchscript_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write the statements into forward, and into a `__setstate__` that is called when the archive is loaded."""
    with_state = _with_setstate(folder)
    for name, body in _bodies(canary).items():
        for method, source in (("forward", SCRIPTED), ("__setstate__", with_state)):
            original = members(source)
            code = _code(original)
            text = _with_first_statements(original[code].decode(), f"def {method}(", body)
            path = folder / f"{method}_{file_name(name)}.pt"
            yield Case(f"{method}: {name}", stored(path, original | {code: text.encode()}), good=source)
    original = members(with_state)
    code = _code(original)
    for name, body in _OTHER_NAMES.items():
        text = _with_first_statements(original[code].decode() + _ENDLESS, "def __setstate__(", body)
        path = folder / f"names_{file_name(name)}.pt"
        yield Case(f"__setstate__: {name}", stored(path, original | {code: text.encode()}), good=with_state)
    original = members(SCRIPTED)
    yield from _other_scripts(folder, original, _code(original))


def _with_first_statements(text: str, method: str, body: str) -> str:
    """Return the code with `body` at the beginning of a method, whose last argument replaces x."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if method in line)
    end = next(i for i in range(start, len(lines)) if lines[i].rstrip().endswith(":"))
    argument = "input" if "forward" in method else "(state)[0]"
    lines.insert(end + 1, body.rstrip("\n").replace("x,", f"{argument},"))
    return "\n".join(lines)


def _with_setstate(folder: Path) -> Path:
    """Return a module that restores itself by its own method."""
    import torch

    class Restored(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.ones(2)

        @torch.jit.export
        def __getstate__(self) -> tuple[torch.Tensor, bool]:
            return self.w, self.training

        @torch.jit.export
        def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
            self.w = state[0]
            self.training = state[1]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.w

    path = folder / "good_state.pt"
    torch.jit.script(Restored().eval()).save(str(path))
    return path


def _other_scripts(folder: Path, original: dict[str, bytes], code: str) -> Iterator[Case]:
    pickle = _entry(original, "/data.pkl")
    constants = _entry(original, "/constants.pkl")
    shaped = b"forward(torch.reshape(input, [" + b"1, " * 20_000 + b"-1]), )"
    changed: dict[str, dict[str, bytes]] = {
        "20,000 sizes": {code: original[code].replace(b"forward(input, )", shaped)},
        "code that does not parse": {code: b"def def def"},
        "code of 100,000 parentheses": {code: b"a = " + b"(" * 100_000 + b")" * 100_000},
        "a megabyte of parentheses": {code: (b"(" * 190 + b")" * 190 + b"\n") * 2700},
        "a megabyte of texts without ends": {code: b"\\'''\n" * 200_000},
        "a megabyte that a state calls": {code: _long_state()},
        "20 MB of comments": {code: original[code] + b"# a comment\n" * (20 << 20 >> 3)},
        "code in UTF-16": {code: original[code].decode().encode("utf-16")},
        "code of other bytes": {code: original[code].replace(b"self", b"se\xfff")},
        "a class of another name": {pickle: original[pickle].replace(b"__torch__", b"posix____")},
        "constants that execute": {constants: b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."},
        "data that execute": {pickle: b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."},
        "no constants": {constants: b""},
        "an empty storage": {n: b"" for n in original if "/data/" in n},
        "a version of 10^30": {_entry(original, "version"): b"1" + b"0" * 30},
        "a byte order of big": {n: b"big" for n in original if n.endswith("byteorder")},
    }
    for name, parts in changed.items():
        yield Case(name, stored(folder / f"{file_name(name)}.pt", original | parts), good=SCRIPTED)


def _long_state() -> bytes:
    """Return ten states that call a long function 900 times each."""
    states = b"".join(
        b"class M%d(Module):\n  def __setstate__(self, state: Tensor) -> NoneType:\n" % number
        + b"    _0 = __torch__.f()\n" * 900
        for number in range(10)
    )
    return states + b"def f() -> NoneType:\n" + b"  _0 = 1\n" * 50_000


def two_roots(path: Path, hidden: dict[str, bytes], shown: dict[str, bytes]) -> Path:
    """Write an archive that PyTorch, which uses the first entry's folder, reads differently from a reader of the top
    folder.
    """
    inside = {f"extra/{name.partition('/')[2]}": part for name, part in hidden.items()}
    return stored(path, inside | {name.partition("/")[2]: part for name, part in shown.items()})


def two_faced_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write archives that are good in the top folder, with something else in the first entry's folder."""
    with_state = _with_setstate(folder)
    original = members(with_state)
    code = _code(original)
    for name, body in _bodies(canary).items():
        text = _with_first_statements(original[code].decode(), "def __setstate__(", body)
        evil = {n.removesuffix(".py") + ".PY" if n.endswith(".py") else n: part for n, part in original.items()}
        evil[code.removesuffix(".py") + ".PY"] = text.encode()
        path = two_roots(folder / f"faces_{file_name(name)}.pt", evil, original)
        yield Case(f"two roots: {name}", path, good=with_state)
    short = {n: part[:4] if "/data/" in n else part for n, part in original.items()}
    yield Case("two roots: a short storage", two_roots(folder / "faces_short.pt", short, original), good=with_state)


def exported_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write exported programs whose JSON names code, costs hours or points elsewhere."""
    original = members(EXPORTED)
    place = _entry(original, "models/model.json")
    powers = "Pow(Integer(9), Pow(Integer(9), Pow(Integer(9), Integer(9))))"
    shell = f"__import__('os').system('touch {canary.marker}')"
    texts = {
        "code as a size": shell,
        "code as a lambda": f"(lambda: open('{canary.marker}', 'w'))()",
        "powers of powers": powers,
        "a power of 10^9": "Pow(Integer(3), Integer(1000000000))",
        "a factorial": "factorial(Integer(100000000))",
        "a long sum": "+".join(["s0"] * 3000),
        "deep parentheses": "(" * 2000 + "s0" + ")" * 2000,
        "powers written out": "s0**s0**s0**99999999",
        "an attribute": "Symbol.__class__.__mro__",
        "a name in two directions": "s\u202e0",
    }
    for name, expression in texts.items():
        document = json.loads(original[place])
        count = _replace(document, "expr_str", expression)
        if not count:
            document["range_constraints"] = {expression: {"min_val": 0, "max_val": 1}}
        yield _exported_case(folder, original, place, f"sizes: {name}", document)
    targets = {"os.system": "os.system", "eval": "builtins.eval", "torch.load": "torch.load",
               "an operator that there is not": "torch.ops.evil.run.default",
               "a private function": "torch._C._jit_pass",
               "a higher-order one": "torch.ops.higher_order.triton_kernel_wrapper_functional",
               "from_file": "torch.ops.aten.from_file.default"}  # fmt: skip
    for name, target in targets.items():
        document = json.loads(original[place])
        _replace(document, "target", target)
        yield _exported_case(folder, original, place, f"target: {name}", document)
    yield from _written_names(folder, original, place, shell)
    yield from _other_exported(folder, original, place)
    yield from _compiled_files(folder, original, canary)


def _written_names(folder: Path, original: dict[str, bytes], place: str, shell: str) -> Iterator[Case]:
    """Write code where PyTorch writes a function that contains the archive's names, conditions and structures."""
    text = original[place].decode()
    called = json.loads(text)["graph_module"]["graph"]["inputs"][-1]["as_tensor"]["name"]
    texts = {
        "a value called a call": text.replace(json.dumps(called), json.dumps(f"{called}={shell}")),
        "a value called two lines": text.replace(
            json.dumps(called), json.dumps(f"{called}):\n  {shell}\ndef g({called}")
        ),
    }
    for name, changed in texts.items():
        yield _exported_case(folder, original, place, f"names: {name}", json.loads(changed))
    enumeration = json.dumps({"__enum__": True, "fqn": "antigravity:x", "name": "y"})
    factory = json.dumps({"default_factory_module": "os", "default_factory_name": "getcwd", "dict_context": "[]"})
    documents: dict[str, tuple[str, Any]] = {
        "a condition that calls": ("guards_code", [f"{shell} == 0"]),
        "a condition with a quote": ("guards_code", ["L['a\"'].size()[0] == 3"]),
        "a bound that calls": ("range_constraints", {"s0": {"min_val": shell, "max_val": None}}),
        "an argument called a call": ("forward_arg_names", [f"x={shell}"]),
        "inputs of an enumeration": ("in_spec", _spec(enumeration)),
        "inputs of a default": ("in_spec", _spec(factory, "collections.defaultdict")),
        "outputs of an enumeration": ("out_spec", _spec(enumeration)),
    }
    for name, (key, value) in documents.items():
        document = json.loads(text)
        signature = document["graph_module"]["module_call_graph"][0]["signature"]
        (document if key in document else signature)[key] = value
        yield _exported_case(folder, original, place, f"names: {name}", document)
    document = json.loads(text)
    odd = 'a"),' + shell + ',("'
    _replace(document, "parameter_name", odd)
    yield _exported_case(folder, original, place, "names: a weight called a call", document)


def _spec(context: str, kind: str = "builtins.dict") -> str:
    """Return the structure of one input, as PyTorch writes it, with this context."""
    leaf = {"type": None, "context": None, "children_spec": []}
    inner = {"type": kind, "context": context, "children_spec": [leaf]}
    return json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [inner]}])


def _other_exported(folder: Path, original: dict[str, bytes], place: str) -> Iterator[Case]:
    evil = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    config = [n for n in original if n.endswith("_config.json")]
    changed: dict[str, dict[str, bytes]] = {
        "weights as a pickle": {n: evil for n in original if "/weights/" in n and not n.endswith(".json")},
        "sample inputs that execute": {n: evil for n in original if "sample_inputs" in n},
        "a program 50,000 deep": {place: deep},
        "a program that is a list": {place: b"[]"},
        "a program of numbers": {place: b'{"graph_module": 1e400, "schema_version": {"major": 1e99}}'},
        "empty weights": {n: b"" for n in original if "/weights/" in n and not n.endswith(".json")},
        "weights elsewhere": {n: original[n].replace(b"weight_0", b"../../x0") for n in config},
        "weights pickled by what it says": {n: original[n].replace(b"false", b"true") for n in config},
        "weights of 2^60": {n: original[n].replace(b'"as_int": 5', b'"as_int": 1152921504606846976') for n in config},
        "an archive in an archive": {n: original[n] * 2 for n in original if n.endswith(".pt")},
    }
    for name, parts in changed.items():
        yield Case(name, stored(folder / f"{file_name(name)}.pt2", original | parts), good=EXPORTED)


def _compiled_files(folder: Path, original: dict[str, bytes], canary: Canary) -> Iterator[Case]:
    """Write archives with AOTInductor's output: a library that runs when it is loaded, or C++ to compile."""
    source = f'__attribute__((constructor)) void go(void) {{ fclose(fopen("{canary.marker}", "w")); }}\n'
    source = "#include <stdio.h>\n" + source
    library = folder / "library.so"
    compiler = shutil.which("cc")
    if compiler is not None:
        command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=source, text=True, check=True)
    content = library.read_bytes() if library.exists() else b"\x7fELF" + bytes(100)
    root = next(iter(original)).partition("/")[0]
    for name, place in (("a library", "data/aotinductor/model"), ("a library of capitals", "data/AOTInductor/model")):
        parts = {"c.wrapper.so": content, "c.wrapper.cpp": source.encode(),
                 "c.wrapper_metadata.json": b'{"AOTI_DEVICE_KEY": "cpu"}'}  # fmt: skip
        beside = {f"{root}/{place}/{part}": data for part, data in parts.items()}
        yield Case(name, stored(folder / f"{file_name(name)}.pt2", original | beside), good=EXPORTED)


def _exported_case(folder: Path, original: dict[str, bytes], place: str, name: str, document: Any) -> Case:
    path = stored(folder / f"{file_name(name)}.pt2", original | {place: json.dumps(document).encode()})
    return Case(name, path, good=EXPORTED)


def _replace(document: Any, key: str, value: Any) -> int:
    """Set every entry of this key; return how many there are."""
    if isinstance(document, list):
        return sum(_replace(item, key, value) for item in document)
    if not isinstance(document, dict):
        return 0
    found = 0
    for name, item in document.items():
        if name == key and isinstance(item, str):
            document[name] = value
            found += 1
        else:
            found += _replace(item, key, value)
    return found
