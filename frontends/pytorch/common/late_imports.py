"""Imports torch.export without what it asks for and a conversion has no use for: networkx, training on many machines.

Two modules for the checkpoints of training import networkx, three hundred modules, a twentieth of the CPU seconds of a
first conversion; Dynamo imports the parameters that are spread over machines (FSDP), a twentieth again. In processes of
the project either is imported when it is used, and otherwise never. In a program that calls the functions they are
imported as PyTorch has it: the program may use them afterwards, and so may torch.compile.
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

from convert.interpreter import is_own_process
from convert.runners.quiet_import import late_modules

_MODULES = tuple(
    f"torch._functorch._activation_checkpointing.{name}" for name in ("graph_info_provider", "knapsack_evaluator")
)

_SPREAD = "torch.distributed.fsdp"
_LATE = (_SPREAD, f"{_SPREAD}._fully_shard", f"{_SPREAD}._fully_shard._fsdp_param_group")
"""What Dynamo asks for at its import, to be held against the modules of the programs that it sees."""


class _Networkx(ModuleType):
    """networkx, imported when something of it is asked for."""

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
    """Annotations stay text (PEP 563) and `import networkx` gives the one that comes late; the rest is as written."""

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
    """Import `torch.export._trace`; in a process of the project without what a conversion has no use for.

    It makes a folder for temporary files when it is imported: that is to be before a thread that loads a file, which
    can write nowhere, gets to it.
    """
    if is_own_process() and "networkx" not in sys.modules:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
        try:
            for name in _MODULES:
                importlib.import_module(name)
        except ImportError:  # they are private, and another version may have none such
            pass
        finally:
            sys.meta_path.remove(finder)
    with late_modules(_LATE):
        return importlib.import_module("torch.export._trace")
