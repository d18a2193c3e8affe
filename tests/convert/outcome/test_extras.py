"""Missing or broken packages: the error names the command that installs them, and the original error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from convert.errors import as_convert_error
from convert.outcome.extras import install_command


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("torch", "pip install 'convert-models[torch]'"),
        ("torch.export", "pip install 'convert-models[torch]'"),
        ("safetensors", "pip install 'convert-models[torch]'"),
        ("keras", "pip install 'convert-models[tensorflow]'"),
        ("h5py", "pip install 'convert-models[tensorflow]'"),
        ("ai_edge_litert", "pip install 'convert-models[tflite]'"),
        ("transformers", "pip install 'convert-models[hugging-face]'"),
        ("PIL", "pip install 'convert-models[images]'"),
        ("ray", "pip install 'convert-models[ray]'"),
        ("silero_vad", "pip install silero-vad"),
    ],
)
def test_every_extra_has_its_command(module: str, command: str) -> None:
    assert install_command(module) == command


BROKEN = {
    "lacks its library": ("raise ImportError('libtorch.so.9: cannot open')", "ImportError: libtorch.so.9: cannot open"),
    "lacks a package": ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
    "was built for another numpy": ("raise AttributeError('_ARRAY_API not found')", "_ARRAY_API not found"),
    "tells it in a second error": (
        "try:\n    raise OSError('GLIBC_2.99 not found')\nexcept OSError as e:\n    raise ImportError('long story')",
        "OSError: GLIBC_2.99 not found",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_package_is_quoted_at_its_root(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, root = BROKEN[how]
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text("from . import inner\n")
    (tmp_path / "transformers" / "inner.py").write_text(code)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "transformers"}
    monkeypatch.syspath_prepend(tmp_path)
    try:
        import transformers  # noqa: F401
    except Exception as error:
        told = as_convert_error(error)
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "transformers"]:
            del sys.modules[name]
        sys.modules.update(kept)
    assert told.exit_code == 1
    assert told.message.startswith("transformers cannot be imported: ")
    assert root in told.message
    assert "defect" not in told.hint
    expected = "no-such-package" if "no_such" in root else "'convert-models[hugging-face]'"
    assert told.hint.startswith("pip install ")
    assert told.hint.endswith(expected)


def test_the_package_that_is_broken_is_named_and_not_the_one_that_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example torchvision built for another torch, hidden behind an error of transformers."""
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text(
        "try:\n    from torchvision import ops\nexcept Exception as error:\n"
        "    raise RuntimeError('Failed to import transformers.models') from error\n"
    )
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("from . import meta\n")
    (tmp_path / "torchvision" / "meta.py").write_text(
        "def register():\n    raise RuntimeError('operator torchvision::nms does not exist')\nregister()\n"
    )
    with monkeypatch.context() as patch:
        for name in [n for n in sys.modules if n.partition(".")[0] in ("transformers", "torchvision")]:
            patch.delitem(sys.modules, name)
        patch.syspath_prepend(tmp_path)
        with pytest.raises(RuntimeError) as error:
            import transformers  # noqa: F401
        for name in [n for n in sys.modules if n.partition(".")[0] in ("transformers", "torchvision")]:
            del sys.modules[name]
    told = as_convert_error(error.value)
    assert told.message == "torchvision cannot be imported: RuntimeError: operator torchvision::nms does not exist"
    assert told.hint == "pip install --upgrade torch torchvision, which are released for each other"


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    try:
        import ray  # noqa: F401
    except ImportError as error:
        told = as_convert_error(error)
    assert str(told) == "this takes the package ray, which is not installed\nhint: pip install 'convert-models[ray]'"


def test_an_error_outside_of_imports_is_still_a_defect() -> None:
    assert "defect of convert" in as_convert_error(KeyError("missing")).hint


def test_lack_of_memory_names_the_option() -> None:
    assert "--memory" in as_convert_error(MemoryError()).hint
