"""Models of the Hugging Face hub: their addresses, and `--download`, which fetches one into a folder.

A separate process connects to the hub (`python … convert.files.hub ORG/NAME REVISION FOLDER`), before anything is
confined. The conversion of the folder has no network access. No code of the repository is fetched.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from convert.errors import BadInput, ConvertError, ResourceLimit, UsageError, restored
from convert.outcome.extras import install_command
from convert.processes.interpreter import module_command, own_variables

_PART = r"[A-Za-z0-9][\w.-]*"
_ADDRESS = re.compile(rf"(?:hf:/{{1,2}}|https?:/{{1,2}}huggingface\.co/)({_PART}/{_PART})(?:@([\w./-]+))?/?")
"""hf://ORG/NAME with an optional @REVISION; `Path` merges the two slashes."""

_TEXTS = ("*.json", "*.txt", "*.model", "*.jinja")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""Patterns of weight files; the first one that matches in the repository is fetched."""

_OWN = ".cache/huggingface"
"""Folder that the hub's client adds to a folder that it downloads."""


@dataclass(frozen=True)
class Repository:
    """A model of the hub at a revision: a branch, a tag or a commit."""

    name: str
    revision: str = "main"

    @property
    def folder(self) -> Path:
        """The destination: a folder with the model's name in the current folder."""
        return Path(self.name.rpartition("/")[2])


def repository_of(text: str) -> Repository | None:
    """Return the repository that an address names, or None."""
    match = _ADDRESS.fullmatch(text)
    return Repository(match[1], match[2] or "main") if match else None


def check_folder(repository: Repository) -> None:
    """Raise `UsageError` if the destination folder exists and is not a download."""
    folder = repository.folder
    if folder.exists() and not (folder / _OWN).is_dir():
        hint = f"name the folder to convert what is in it: convert {folder} …; or download in another folder"
        raise UsageError(f"{folder} is there already, and no download of the Hugging Face hub", hint=hint)


def download(repository: Repository, seconds: float) -> Path:
    """Fetch the configuration, the tokenizer and the weights into `repository.folder`, except files that exist there.

    Raises `UsageError` without the hub's client, `BadInput` for errors of the hub, and `ResourceLimit` on a timeout.
    """
    folder = repository.folder
    command = module_command("convert.files.hub", repository.name, repository.revision, str(folder))
    variables = {} if sys.stderr.isatty() else {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    try:
        done = subprocess.run(
            command, env={**os.environ, **own_variables(), **variables}, stdout=subprocess.PIPE, timeout=seconds,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        hint = "give a larger --timeout; what was fetched is kept"
        raise ResourceLimit(f"{repository.name} was not fetched in {seconds:g} s", hint=hint) from None
    if done.returncode:
        raise _error_of(done.stdout, repository)
    return folder


def _error_of(text: bytes, repository: Repository) -> ConvertError:
    """Return the error that the process reported."""
    try:
        answer = json.loads(text)
    except ValueError:
        hint = f"try it by itself: hf download {repository.name} --local-dir {repository.folder}"
        return BadInput(f"fetching {repository.name} ended early", hint=hint)
    kind = UsageError if answer["usage"] else BadInput
    return restored(kind, answer["message"], answer["hint"])


def _fetch(name: str, revision: str, folder: str) -> None:
    """Fetch the files, in the process that may connect to the hub."""
    from fnmatch import fnmatch

    from huggingface_hub import HfApi, snapshot_download

    there = HfApi().list_repo_files(name, revision=revision)
    weights = next(([p] for p in _WEIGHTS if any(fnmatch(file, p) for file in there)), [])
    snapshot_download(name, revision=revision, local_dir=folder, allow_patterns=[*_TEXTS, *weights])


def _problem(error: Exception, name: str) -> dict[str, object]:
    """Return the meaning of an exception of the hub's client, as fields of an error."""
    kind = type(error).__name__
    if isinstance(error, ImportError):
        missing = f"fetching {name} takes the package huggingface_hub, which cannot be imported: {error}"
        return {"usage": True, "message": missing, "hint": install_command("huggingface_hub")}
    known = {
        "RepositoryNotFoundError": (f"the Hugging Face hub has no public model {name}", "check the name at "
                                    "huggingface.co; for a private one: hf auth login"),
        "RevisionNotFoundError": (f"{name} has no such revision", f"leave it out: hf://{name}"),
        "GatedRepoError": (f"{name} is gated", "accept its terms at huggingface.co, then: hf auth login"),
        "OfflineModeIsEnabled": (f"{name} is not fetched while HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE"),
    }  # fmt: skip
    text = " ".join(str(error).split())[:300]
    otherwise = (f"{name} could not be fetched: {kind}: {text}", "is the network there? what was fetched is kept")
    message, hint = known.get(kind, otherwise)
    return {"usage": kind == "OfflineModeIsEnabled", "message": message, "hint": hint}


if __name__ == "__main__":
    try:
        _fetch(*sys.argv[1:4])
    except Exception as problem:  # any exception: the waiting process reports it
        print(json.dumps(_problem(problem, sys.argv[1])))
        sys.exit(1)
