"""Modules of a folder are imported, each once, in the order of their names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from convert.rules.scan import import_modules


def test_every_module_is_imported_in_alphabetical_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "scanned_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("order = []\n")
    for name in ("pool", "conv", "math"):
        (folder / f"{name}.py").write_text(f"from scanned_package import order\norder.append({name!r})\n")
    (folder / "notes.txt").write_text("no module")
    monkeypatch.syspath_prepend(str(tmp_path))
    import scanned_package  # type: ignore[import-not-found]

    try:
        import_modules("scanned_package", scanned_package.__path__)
        assert scanned_package.order == ["conv", "math", "pool"]
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] == "scanned_package"]:
            del sys.modules[name]
