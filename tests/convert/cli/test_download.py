"""`--download`: a server on this machine plays the hub; what is fetched from it, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from convert.cli import cli
from convert.cli.downloads import fetched
from convert.errors import BadInput, UsageError
from convert.files.hub import Repository, repository_of
from tests.support import timm_helper

pytest.importorskip("huggingface_hub", reason="fetches from the hub")
pytestmark = pytest.mark.not_core  # each starts a process and a server

SHA = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"the same as a pickle",
    "tf_model.h5": b"the same for TensorFlow",
    "onnx/model.onnx": b"the same as ONNX",
    "modeling.py": b"raise SystemExit('code was run')",
    "README.md": b"text",
}


class Hub(BaseHTTPRequestHandler):
    """Serves the endpoints that the hub's client uses: the tree, the revision, and each file."""

    files: dict[str, bytes] = FILES
    gated = False

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/org/tiny/tree/"):
            rows = [{"type": "file", "path": n, "size": len(c), "oid": SHA} for n, c in self.files.items()]
            self.answer(json.dumps(rows).encode())
        elif path.startswith("/api/models/org/tiny"):
            siblings = [{"rfilename": name} for name in self.files]
            self.answer(json.dumps({"id": "org/tiny", "sha": SHA, "siblings": siblings}).encode())
        elif path.startswith(f"/org/tiny/resolve/{SHA}/") and not self.gated:
            self.answer(self.files[path.partition(f"{SHA}/")[2]])
        elif self.gated:
            self.answer(b"", 403, "GatedRepo")
        else:
            self.answer(b"", 404, "RepoNotFound")

    def answer(self, content: bytes, code: int = 200, error: str = "") -> None:
        self.send_response(code)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", SHA)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """Start a hub on this machine, and change into an empty folder."""
    handler = type("OwnHub", (Hub,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield handler
    server.shutdown()
    server.server_close()


def names(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] != ".cache"}


def test_configuration_tokenizer_and_weights_are_fetched_and_no_code(hub: type[Hub]) -> None:
    assert fetched(["hf://org/tiny"], 60, quiet=True) == ("tiny",)
    assert names(Path("tiny")) == {"config.json", "tokenizer.json", "model.safetensors"}
    assert Path("tiny/model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert not Path("tiny/config.json").is_symlink()
    assert fetched(["a.onnx", "hf:/org/tiny"], 60, quiet=True) == ("a.onnx", "tiny")  # again: the folder is its own


def test_a_pickle_is_fetched_where_there_is_nothing_else(hub: type[Hub]) -> None:
    hub.files = {name: content for name, content in FILES.items() if not name.endswith(".safetensors")}
    fetched(["hf://org/tiny"], 60, quiet=True)
    assert names(Path("tiny")) == {"config.json", "tokenizer.json", "pytorch_model.bin"}


def test_a_model_that_is_not_there_is_named(hub: type[Hub]) -> None:
    with pytest.raises(BadInput, match="no public model org/huge") as raised:
        fetched(["hf://org/huge"], 60, quiet=True)
    assert "hf auth login" in raised.value.hint
    assert not Path("huge").exists() or not names(Path("huge"))


def test_a_gated_model_says_what_to_do(hub: type[Hub]) -> None:
    hub.gated = True
    with pytest.raises(BadInput, match="org/tiny is gated") as raised:
        fetched(["hf://org/tiny"], 60, quiet=True)
    assert "accept its terms" in raised.value.hint


def test_offline_is_offline(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE"):
        fetched(["hf://org/tiny"], 60, quiet=True)


def test_nothing_is_fetched_unasked(hub: type[Hub]) -> None:
    done = CliRunner().invoke(cli, ["hf://org/tiny", "--to", "onnx"])
    assert done.exit_code == 5
    assert "convert hf://org/tiny --download" in done.stderr
    assert not Path("tiny").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["inspect", "hf://org/tiny"], ["hf://org/tiny", "--to", "onnx", "--no-verify"]])
def test_a_command_goes_on_with_the_folder(words: list[str], hub: type[Hub], tmp_path: Path) -> None:
    timm_helper.declare_torchvision_operators()
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "made")
    hub.files = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    shutil.rmtree(tmp_path / "made")
    done = CliRunner().invoke(cli, [*words, "--download"])
    assert done.exit_code == 0, done.output
    assert "fetching org/tiny from the Hugging Face hub to tiny" in done.stderr
    assert done.stdout.startswith("tiny: hf-folder" if words[0] == "inspect" else "tiny → tiny.onnx")


ADDRESSES = {
    "hf://org/name": Repository("org/name"),
    "hf:/org/name": Repository("org/name"),
    "hf://org/name@v1.2": Repository("org/name", "v1.2"),
    "https://huggingface.co/org/name/": Repository("org/name"),
    "hf://name": None,
    "https://example.com/org/name": None,
    "org/name": None,
    "hf://../name": None,
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses(address: str) -> None:
    assert repository_of(address) == ADDRESSES[address]
