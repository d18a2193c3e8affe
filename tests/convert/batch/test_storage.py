"""Outputs of a batch on shared storage: paths, fsspec's memory, and (long) S3 served by moto."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from convert.batch.storage import Url, parse_location
from convert.cli import cli
from convert.errors import ConvertError, UsageError
from tests.support.batch_tools import tiny

fsspec = pytest.importorskip("fsspec", reason="shared storage is an extra")


def test_places() -> None:
    assert parse_location("out/zoo") == Path("out/zoo")
    assert parse_location("file:///data/zoo") == Path("/data/zoo")
    assert parse_location("s3://bucket/zoo/") == Url("s3://bucket/zoo")
    assert str(Url("s3://bucket/zoo") / "a/b.onnx") == "s3://bucket/zoo/a/b.onnx"
    assert (Url("s3://bucket/zoo/a.onnx").name, str(Url("s3://b/zoo/a.onnx").parent)) == ("a.onnx", "s3://b/zoo")
    with pytest.raises(UsageError, match="no path of this machine"):
        parse_location("file://server/share")


@pytest.mark.parametrize("scheme", ["memory", "local"])
def test_files_and_folders_replace_what_is_there(scheme: str, tmp_path: Path) -> None:
    base = Url(f"{scheme}://{tmp_path}/out")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/a").write_text("a")
    (tmp_path / "model/deep").mkdir()
    (tmp_path / "model/deep/b").write_text("b")
    (base / "model").put(tmp_path / "model")
    (tmp_path / "model/a").unlink()
    (tmp_path / "model/deep/b").write_text("new")
    (base / "model").put(tmp_path / "model")
    (base / "model/deep/b").get(tmp_path / "back")
    assert (tmp_path / "back").read_text() == "new"
    assert (base / "model").exists()
    assert not (base / "model/a").exists()
    assert not (base / "other").exists()


def test_a_storage_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match="names no storage"):
        Url("nosuchstorage://a/b").exists()
    with pytest.raises(ConvertError, match="is not there"):
        Url("memory://nowhere/at/all").get(Path("x"))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start an S3 server on this machine with a bucket; its address is in the environment, as users set it."""
    pytest.importorskip("s3fs", reason="S3 is not installed")
    server = pytest.importorskip("moto.server", reason="moto serves S3 here").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test",
                        "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir("zoo")
    yield "s3://zoo"
    server.stop()


@pytest.mark.long
def test_a_batch_writes_to_s3_and_goes_on_from_there(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for i in range(2):
        tiny(tmp_path / f"zoo/{i}.onnx", seed=i)
    words = [
        "batch",
        str(tmp_path / "zoo"),
        "--to",
        "onnx",
        "--to",
        "caffe2",
        "--no-verify",
        "-o",
        f"{bucket}/out",
        "--json",
    ]

    def batch() -> list[dict]:
        done = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    *rows, last = batch()
    assert last["summary"]["outcomes"] == {"converted": 4}
    assert {r["output"] for r in rows} == {f"s3://zoo/out/{i}{s}" for i in range(2) for s in (".onnx", ".caffe2")}
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    onnx.checker.check_model(onnx.load_from_string(system.cat("zoo/out/1.onnx")))
    assert system.exists("zoo/out/0.caffe2/init_net.pb")
    assert all(r.get("before") for r in batch()[:-1])
    # Another machine, which has no journal of its own, uses the copy beside the outputs.
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    assert all(r.get("before") for r in batch()[:-1])
    system.rm("zoo/out/0.onnx")
    assert [r["output"] for r in batch()[:-1] if not r.get("before")] == ["s3://zoo/out/0.onnx"]
