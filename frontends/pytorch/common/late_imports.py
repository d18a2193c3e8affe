"""Imports torch.export without two imports that a conversion does not need: networkx, and distributed training.

Two modules for training checkpoints import networkx: 300 modules, a twentieth of the CPU time of a first conversion.
Dynamo imports parameters of distributed training (FSDP), another twentieth. In the project's own processes both are
imported at first use only. In a program that calls the functions they are imported as usual, because the program, and
torch.compile, may use them afterwards.
"""

from __future__ import annotations
import __future__ as future

import builtins
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from convert.processes.interpreter import is_own_process
from convert.processes.quiet_import import late_modules

_MODULES = tuple(
    f"torch._functorch._activation_checkpointing.{name}" for name in ("graph_info_provider", "knapsack_evaluator")
)

_SPREAD = "torch.distributed.fsdp"
_LATE = (_SPREAD, f"{_SPREAD}._fully_shard", f"{_SPREAD}._fully_shard._fsdp_param_group")
"""Modules that Dynamo imports to compare them with the modules of programs."""


class _Networkx(ModuleType):
    """networkx, imported at first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("networkx"), name)


_networkx = _Networkx("networkx")


class _Finder:
    """Finds the two modules as Python does, and nothing else."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target) if name in _MODULES else None
        if found is not None and type(found.loader) is SourceFileLoader:
            found.loader = _Loader(name, found.loader.path)
        return found


class _Loader(SourceFileLoader):
    """Loads a module with annotations as text (PEP 563) and a late `import networkx`; the rest is unchanged."""

    def get_code(self, fullname: str) -> CodeType:
        text, flags = self.get_source(fullname), future.annotations.compiler_flag
        return compile(text or "", self.path, "exec", flags, dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


def _import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> ModuleType:
    if name == "networkx" and not fromlist:
        return _networkx
    return builtins.__import__(name, globals, locals, fromlist, level)


def import_trace() -> ModuleType:
    """Import `torch.export._trace`; in a process of the project without the parts that a conversion does not need.

    The import creates a temporary folder, so it must happen before a confined thread, which cannot write, loads a file.
    """
    if is_own_process() and "networkx" not in sys.modules:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
        try:
            for name in _MODULES:
                importlib.import_module(name)
        except ImportError:  # they are private and may be missing in another version
            pass
        finally:
            sys.meta_path.remove(finder)
    with late_modules(_LATE):
        return importlib.import_module("torch.export._trace")
