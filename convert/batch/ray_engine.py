"""The Ray engine: the same worker on every machine of a cluster; a task on a lost machine runs again on another."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from convert.batch.fork_server_pool import fork_server_socket, kinds_and_formats
from convert.batch.plan import Task
from convert.batch.processes import kill_orphans
from convert.batch.ray_here import own_cluster
from convert.batch.task_key import versions
from convert.batch.worker import PASSING, TaskResult, run
from convert.errors import ConvertError, UsageError
from convert.files.scratch import sweep_scratch
from convert.processes import machine

_GRACE = 300.0
"""Seconds after a task's own limit, which its worker enforces, before Ray ends it, in case the worker hangs."""

_LOSSES = 3
"""Number of times that Ray repeats a task whose machine was lost."""

_OTHER_ENGINE = "run it again when the machine is less busy, or with --engine local"

_PATIENCE = 1.0  # seconds between looks at the size of the cluster


@dataclass(frozen=True)
class Cluster:
    """`address` of a running Ray cluster ("" starts one here), and the CPUs of each task."""

    address: str = ""
    cpus: float = 1.0


@dataclass
class _SentTask:
    """A task that was sent to Ray: when, how often, and whether it was cancelled."""

    task: Task
    since: float = 0.0
    attempts: int = 0
    cancelled: bool = False


def run_all(
    tasks: Sequence[Task],
    jobs: int | None,
    started: Callable[[Task], None],
    ended: Callable[[Task, TaskResult], None],
    *,
    retries: int,
    warm: bool,
    cluster: Cluster,
) -> None:
    """Run every task on the cluster, as many at a time as its CPUs allow, and at most `jobs`.

    Ray repeats a task whose machine was lost (`max_retries`). A task that crashed or ran out of memory is sent again,
    the latter with twice the memory if some machine has it. On an exception all tasks are cancelled.
    """
    waiting = [_SentTask(task) for task in reversed(tasks)]
    running: dict[Any, _SentTask] = {}
    seen: set[Any] = set()
    with _DeferredSignals() as signals, _ray_connection(cluster) as ray:
        signals.defer()
        if tasks and not _task_slots(ray, cluster):
            raise UsageError(f"no machine of the cluster has {cluster.cpus:g} CPUs", hint="give fewer --cpus")
        remote = ray.remote(_run_task)
        by, plan = versions(), (*kinds_and_formats(tasks), warm and len(tasks) > 1)
        try:
            while waiting or running:
                signals.raise_deferred()
                slots = _task_slots(ray, cluster)
                slots = slots if jobs is None else min(jobs, slots)
                while waiting and len(running) < max(slots, 1):
                    sent = replace(waiting.pop(), since=time.monotonic())
                    sent.attempts += 1
                    if sent.task.output not in seen:
                        seen.add(sent.task.output)
                        started(sent.task)
                    wanted = _resources(ray, sent.task, cluster)
                    running[remote.options(**wanted).remote(sent.task, by, plan)] = sent
                for reference in _finished(ray, list(running)):
                    sent = running.pop(reference)
                    ending = _task_result(ray, reference, sent)
                    again = _task_to_retry(ray, sent, ending, retries)
                    if again is not None:
                        waiting.append(again)
                    else:
                        ending.attempts += sent.attempts - 1
                        ended(sent.task, ending)
                _end_hanging(ray, running)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _finished(ray: Any, references: list[Any]) -> list[Any]:
    """Wait until a task ends, for at most `_PATIENCE`, and return all that have ended.

    Between two calls the engine looks at the cluster, which costs the more the more machines it has. A large cluster
    ends many tasks at a time.
    """
    ray.wait(references, timeout=_PATIENCE)
    ended: list[Any] = ray.wait(references, num_returns=len(references), timeout=0)[0]
    return ended


def _resources(ray: Any, task: Task, cluster: Cluster) -> dict[str, Any]:
    found = {"num_cpus": cluster.cpus, "max_retries": _LOSSES}
    return found if task.memory is None else {**found, "memory": min(task.memory, _most_memory(ray))}


def _task_to_retry(ray: Any, sent: _SentTask, ending: TaskResult, retries: int) -> _SentTask | None:
    """Return the task to send again after this outcome, or None."""
    if ending.outcome not in PASSING or sent.attempts > retries:
        return None
    if ending.outcome != "memory" or sent.task.memory is None:
        return sent
    more = 2 * sent.task.memory
    return replace(sent, task=replace(sent.task, memory=more)) if more <= _most_memory(ray) else None


def _task_result(ray: Any, reference: Any, sent: _SentTask) -> TaskResult:
    try:
        return TaskResult(**ray.get(reference))
    except ray.exceptions.RayError as error:
        if sent.cancelled:
            return TaskResult("timeout", f"took longer than {sent.task.seconds:g} s, and its worker did not end it")
        outcome = "memory" if isinstance(error, ray.exceptions.OutOfMemoryError) else "lost"
        return TaskResult(outcome, " ".join(str(error).split())[:300])


def _end_hanging(ray: Any, running: Mapping[Any, _SentTask]) -> None:
    for reference, sent in running.items():
        if time.monotonic() - sent.since > sent.task.seconds * (1 + _LOSSES) + _GRACE and not sent.cancelled:
            sent.cancelled = True
            ray.cancel(reference, force=True)


def _most_memory(ray: Any) -> int:
    """Return the bytes that the largest machine offers to tasks."""
    return int(max((n["Resources"].get("memory", 0) for n in ray.nodes() if n["Alive"]), default=0))


def _task_slots(ray: Any, cluster: Cluster) -> int:
    """Return how many tasks the present machines can run at a time."""
    every = [n["Resources"].get("CPU", 0.0) for n in ray.nodes() if n["Alive"]]
    return sum(int(cpus / cluster.cpus) for cpus in every)


@contextmanager
def _ray_connection(cluster: Cluster) -> Iterator[Any]:
    """Context manager: yield the connected module `ray`.

    Raises `ConvertError` without Ray, and `UsageError` if no cluster is at the address.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConvertError("the Ray engine needs Ray", hint="pip install 'convert-models[ray]'")
    # A cluster started here would report usage statistics to Ray's makers after a minute.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not cluster.address:  # also on Linux: a node of a cluster that others may join has another address than loopback
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray: Any = importlib.import_module("ray")  # optional, and mypy does not need its types
    if ray.is_initialized():
        yield ray
        return
    here: AbstractContextManager[dict[str, Any]] = nullcontext({}) if cluster.address else own_cluster()
    with here as more:
        try:
            # Without an address, Ray would join any cluster that it finds here.
            ray.init(address=cluster.address or "local", log_to_driver=False, logging_level="ERROR", **more)
        except Exception as error:  # a plain one if Ray's processes start too slowly on a busy machine
            text = " ".join(str(error).split())[:300]
            if not cluster.address:
                raise ConvertError(f"no Ray cluster starts here: {text}", hint=_OTHER_ENGINE) from None
            raise UsageError(f"no Ray cluster answers at {cluster.address}: {text}", hint="ray start --head") from None
        try:
            yield ray
        finally:
            ray.shutdown()


class _DeferredSignals:
    """Context manager: defer signals with handlers until `raise_deferred` is called.

    An exception in Ray's own code would become a SystemError.

    Call `hold` again when Ray is connected: its own handler of SIGTERM prints a stack and ends the process.
    """

    def __init__(self) -> None:
        self.caught: list[int] = []
        self.handlers: dict[int, Any] = {}

    def __enter__(self) -> _DeferredSignals:
        if threading.current_thread() is threading.main_thread():
            found = {number: signal.getsignal(number) for number in signal.valid_signals()}
            self.handlers = {number: handler for number, handler in found.items() if callable(handler)}
        self.defer()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for number, handler in self.handlers.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)
        if kind is None:
            self.raise_deferred()

    def defer(self) -> None:
        for number in self.handlers:
            signal.signal(number, self._note)

    def raise_deferred(self) -> None:
        """Call the handler of the first deferred signal, which raises."""
        if self.caught:
            number = self.caught.pop(0)
            self.handlers[number](number, None)

    def _note(self, number: int, frame: object) -> None:
        self.caught.append(number)


# -- on the machines of the cluster -----------------------------------------------------------------------------------


def _run_task(task: Task, wanted: Mapping[str, str], plan: tuple[Sequence[str], Sequence[str], bool]) -> dict[str, Any]:
    """Convert in this Ray worker, after killing what a lost worker left running on this machine."""
    kill_orphans()
    sweep_scratch()
    here = versions()
    other = [f"{k} {here.get(k, 'missing')} for {v}" for k, v in wanted.items() if here.get(k) != v]
    if other:
        return TaskResult("failed", f"{socket.gethostname()} has {', '.join(other)}").to_dict()
    if not task.source.exists():
        return TaskResult("bad input", f"{task.source} is not on {socket.gethostname()}: share its folder").to_dict()
    machine.set_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))  # Ray sets OMP_NUM_THREADS to the task's CPUs
    kinds, formats, warm = plan
    return run(task, None, _fork_server_socket(tuple(kinds), tuple(formats)) if warm else "").to_dict()


_KEPT: dict[Any, str] = {}
_STACK = ExitStack()


def _fork_server_socket(kinds: tuple[str, ...], formats: tuple[str, ...]) -> str:
    """Return the socket of this Ray worker's warm process, which lives as long as the worker."""
    assert threading.current_thread() is threading.main_thread()
    key = (os.getpid(), kinds, formats)
    if key not in _KEPT:
        _KEPT[key] = _STACK.enter_context(fork_server_socket(kinds, formats))
    return _KEPT[key]
