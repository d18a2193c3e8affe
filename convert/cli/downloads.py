"""`--download`: fetches a source on the Hugging Face hub into a folder, before anything else is done with it."""

from __future__ import annotations

from collections.abc import Sequence

from convert.errors import UsageError
from convert.files.hub import check_folder, download, repository_of
from convert.outcome.terminal import echo


def fetched(words: Sequence[str], seconds: float, *, quiet: bool) -> tuple[str, ...]:
    """Return the words with each hf://ORG/NAME replaced by the folder into which it was fetched.

    Raises as `download` and `check_folder` do, and `UsageError` if there is nothing to fetch.
    """
    found = [(word, repository_of(word)) for word in words]
    if not any(repository for _, repository in found):
        if partial := next((word for word in words if word.startswith("hf://")), ""):
            raise UsageError(
                f"{partial} is no address of the Hugging Face hub, which has the form hf://ORG/NAME",
                hint=f"give the organization too: hf://ORG/{partial.removeprefix('hf://').strip('/') or 'NAME'}",
            )
        raise UsageError("--download fetches hf://ORG/NAME, but no model has such a name", hint="leave out --download")
    made = []
    for word, repository in found:
        if repository is not None:
            check_folder(repository)
            if not quiet:
                echo(f"fetching {repository.name} from the Hugging Face hub to {repository.folder}", err=True)
            word = str(download(repository, seconds))
        made.append(word)
    return tuple(made)
