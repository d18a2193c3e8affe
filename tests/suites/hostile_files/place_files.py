"""Paths that are no files or have deceptive names, and manifests of a batch whose names leave its folder."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from tests.suites.hostile_files.case import FIXTURES, Canary, Case

GOOD = FIXTURES / "mnist_cnn.onnx"


def place_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Return devices, pipes, sockets, links, folders and names."""
    os.mkfifo(folder / "pipe.onnx")
    os.mkfifo(folder / "pipe.pt")
    for name, target in {"zero.onnx": "/dev/zero", "zero.pb": "/dev/zero", "random.keras": "/dev/urandom",
                         "stdin.onnx": "/dev/stdin", "tty.pt": "/dev/tty", "loop.onnx": "loop.onnx", "a.pt": "b.pt",
                         "b.pt": "a.pt", "gone.tflite": "nowhere", "memory.pb": "/proc/self/mem",
                         "kmsg.onnx": "/dev/kmsg", "proc.pb": "/proc/self/environ", "root": "/", "full.h5": "/dev/full",
                         "null.onnx": "/dev/null"}.items():  # fmt: skip
        os.symlink(target, folder / name)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.onnx"))
    for name in ("empty.onnx", "empty.pt"):
        (folder / name).touch()
    with (folder / "sparse.onnx").open("wb") as file:
        file.truncate(1 << 40)
    with (folder / "sparse.pt").open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(1 << 40)
    (folder / "folder.onnx").mkdir()
    inner = folder / "circle"
    inner.mkdir()
    os.symlink("..", inner / "up")
    for name in ("saved", "caffe2", "hugging"):
        (folder / name).mkdir()
    os.mkfifo(folder / "saved" / "saved_model.pb")
    os.mkfifo(folder / "caffe2" / "init_net.pb")
    os.mkfifo(folder / "caffe2" / "predict_net.pb")
    os.mkfifo(folder / "hugging" / "config.json")
    (folder / "hugging" / "model.safetensors").write_bytes(b"x")
    found = sorted(folder.iterdir())
    names = ["a\nb.onnx", "\x1b[31mred.onnx", "\u202exnno.tp.onnx", "\x9b2Jx.onnx", "-o.onnx", "--trust",
             "a b'\";$(touch x).onnx",
             "<img src=x>.onnx", "x" * 240 + ".onnx", "\udcff\udcfe.onnx", "%s%n.onnx", "$HOME.onnx"]  # fmt: skip
    for name in names:
        shutil.copy(GOOD, folder / name)
    for path in [*found, *(folder / n for n in names)]:
        yield Case(repr(path.name), path, good=GOOD)
    for name in ("mnist_cnn.pt", "mnist_cnn.pt2", "mnist_cnn_scripted.pt", "mnist_cnn.keras", "mnist_cnn.savedmodel"):
        odd, copy = folder / f"\udcff\udcfe{name}", shutil.copytree if (FIXTURES / name).is_dir() else shutil.copy
        copy(FIXTURES / name, odd)
        yield Case(repr(odd.name), odd, good=odd)
    yield Case("a path of 5,000 characters", folder / ("x" * 5000), good=GOOD)
    yield Case("a path through a file", FIXTURES / "mnist_cnn.onnx" / "x", good=GOOD)


def manifest_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Return manifests, which only a batch reads."""
    outside = canary.marker.parent / "outside"
    zoo = folder / "zoo"
    zoo.mkdir()
    shutil.copy(GOOD, zoo / "m.onnx")
    for name, place in (("root", "/"), ("above", ".."), ("system", "/usr"), ("processes", "/proc")):
        (zoo / name).symlink_to(place)
    models = {
        "a folder with links to all of the disk": {"source": str(zoo)},
        "a name that goes up": {"name": "../../up"},
        "an absolute name": {"name": str(outside)},
        "a name with a line break": {"name": "a\nb\x1b[31m"},
        "a name in two directions": {"name": "a\u202eb"},
        "a name of nothing": {"name": ""},
        "a name of dots": {"name": ".."},
        "an output that goes up": {"output": "../../up"},
        "an absolute output": {"output": str(outside)},
        "an output on the web": {"output": f"http://127.0.0.1:{canary.port}/x"},
        "a source that is a device": {"source": "/dev/zero"},
        "a source that goes up": {"source": "../../../../../../etc/passwd"},
        "a factory": {"model": "os:system"},
        "inputs elsewhere": {"inputs": "/dev/zero"},
        "an unknown key": {"run": "touch x"},
        "a long timeout": {"timeout": 1e300},
        "a memory below zero": {"memory": "-5GB"},
        "a memory of 10^30": {"memory": 10**30},
        "a memory of 4,000 digits": {"memory": "9" * 4000},
        "a timeout of infinity": {"timeout": float("inf")},
        "a timeout of 10^400": {"timeout": 10**400},
        "a format that is a number": {"to": [1]},
        "a format that is a list": {"to": [["onnx"]]},
        "no format": {"to": []},
        "inputs that are numbers": {"input": [1, [2]]},
        "rules that are numbers": {"rules": [1]},
        "rules that are a device": {"rules": ["/dev/zero"]},
        "seeds of 2^70": {"seeds": 2**70, "verify": True},
        "an opset of 2^70": {"opset": 2**70},
        "a tolerance that is no number": {"rtol": float("nan"), "verify": True},
        "a name of 300 characters": {"name": "x" * 300},
        "a name of 3,000 folders": {"name": "x/" * 3000 + "y"},
        "a name of markup": {"name": "<img src=x onerror=alert(1)>"},
        "a name that is swept": {"name": ".convert-abcdefgh"},
        "a folder that is the journal": {"output": "journal.jsonl"},
        "a folder that is a model": {"output": "m.onnx", "name": "m"},
        "a source of no name": {"source": "\0"},
        "a source of 5,000 characters": {"source": "x" * 5000},
        "a source of brackets": {"source": "[" * 5000 + "*"},
        "a source of stars": {"source": "*/" * 40 + "**"},
    }  # fmt: skip
    for number, (name, values) in enumerate(models.items()):
        path = folder / f"m{number}.toml"
        entry = {"source": str(GOOD), "to": "onnx", "verify": False} | values
        path.write_text("[[models]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in entry.items()))
        yield Case(name, path, batch=True)
    good = f'[[models]]\nsource = "{GOOD}"\nto = "onnx"\nverify = false\n'
    texts = {"a key of 50,000 parts": good + "a" + ".a" * 50_000 + " = 1", "a date": good + "timeout = 1979-05-27",
             "a number of 100,000 digits": good + "opset = 0x" + "f" * 100_000, "20,000 models": good * 20_000,
             "a manifest of brackets": "a = " + "[" * 20_000, "a manifest of noise": "\0\1\2", "no models": "x = 1\n",
             "models that are numbers": "models = [1, 2]\n"}  # fmt: skip
    for number, (name, text) in enumerate(texts.items()):
        path = folder / f"t{number}.toml"
        path.write_text(text)
        yield Case(name, path, batch=True)


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in value)
        return f'"{escaped}"'
    return repr(value)
