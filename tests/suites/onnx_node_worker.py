"""Child processes that convert a case and run the artefact. A crash ends the process, and the pool starts another."""

from __future__ import annotations

import os
import pickle
import queue
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# A case takes well under a second on a free machine; large networks on a busy one take minutes. What is not done by
# then may have waited for others: it is run once more, alone and for longer.
TIMEOUT, ALONE = 300.0, 1200.0


@dataclass(frozen=True)
class Answer:
    """The outcome of a case: outputs by name for each data set, or the reason why there are none.

    `status` is "ran", "refused" (`Unsupported`), "error" (another exception), "crash" or "timeout". `problems` are the
    operators that are refused, each with the reason.
    """

    status: str
    text: str = ""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    problems: tuple[tuple[str, str], ...] = ()


class Worker:
    """A child process that runs one case at a time; a new one is started after a crash or time-out.

    command: the program to start, by default this module.
    """

    def __init__(self, environment: dict[str, str], *command: str) -> None:
        self.environment = environment
        self.command = command or (sys.executable, "-m", "tests.suites.onnx_node_worker")
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, request: Any, seconds: float = TIMEOUT) -> Answer:
        """Send a request and wait for its answer, for at most `seconds` of wall time."""
        if self.process is None or self.process.poll() is not None:
            self.process = self._start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        data = pickle.dumps(request)
        try:
            self.process.stdin.write(struct.pack("<q", len(data)) + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._ended("crash")
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return self._ended("timeout")
        head = self.process.stdout.read(8)
        if len(head) < 8:
            return self._ended("crash")
        answer = pickle.loads(self.process.stdout.read(struct.unpack("<q", head)[0]))
        assert isinstance(answer, Answer)
        return answer

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _ended(self, status: str) -> Answer:
        assert self.process is not None
        code = self.process.poll() if status == "timeout" else self.process.wait()
        self.stop()
        return Answer(status, "no answer in time" if status == "timeout" else f"exit code {code}")

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self.environment, "PYTHONPATH": os.pathsep.join(paths)},
        )


def run_all(
    requests: Iterable[tuple[str, Any]],
    jobs: int,
    environment: dict[str, str],
    done: Callable[[str, Answer], None],
    command: Sequence[str] = (),
) -> None:
    """Run named requests in `jobs` processes; call `done(name, answer)` for each, one at a time.

    Requests that time out run again at the end, one at a time, and only that answer counts.
    """
    waiting: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    for item in requests:
        waiting.put(item)
    late: list[tuple[str, Any]] = []
    lock = threading.Lock()

    def drain() -> None:
        worker = Worker(environment, *command)
        try:
            while True:
                name, request = waiting.get_nowait()
                answer = worker.run(request)
                with lock:
                    if answer.status == "timeout":
                        late.append((name, request))
                    else:
                        done(name, answer)
        except queue.Empty:
            pass
        finally:
            worker.stop()

    threads = [threading.Thread(target=drain) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker = Worker(environment, *command)
    for name, request in late:
        done(name, worker.run(request, ALONE))
    worker.stop()


def serve(answer: Callable[..., Answer] | None = None) -> None:
    """Serve requests in the child process with `answer`, by default `answer_to`."""
    # Native libraries also write to descriptor 1.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while len(head := sys.stdin.buffer.read(8)) == 8:
        request = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", head)[0]))
        data = pickle.dumps((answer or answer_to)(*request))
        answers.write(struct.pack("<q", len(data)) + data)
        answers.flush()


def answer_to(data: bytes, feeds: list[dict[str, Any]], specs: list[Any], form: str) -> Answer:
    """Convert the serialized model to the format, with nothing frozen, and run the artefact on each input set."""
    import tempfile

    import onnx

    from convert import plugin
    from convert.errors import Unsupported
    from convert.graph.names import names_in_target
    from convert.outcome.report import Report
    from convert.processes.warm import start_program_servers
    from convert.request.options import Options
    from convert.request.source import Source

    if form == "tflite":  # its converter and its runs are processes, which would each import TensorFlow
        start_program_servers({"tflite": ["tflite"]})
    options = Options(inputs=tuple(specs), extra={"opset": onnx.defs.onnx_opset_version()})
    try:
        with tempfile.TemporaryDirectory(prefix="convert-nodes-") as folder:
            written = plugin.formats()[form]
            path = Path(folder) / f"artefact{written.suffix}"  # Keras recognizes the format by the suffix
            source = plugin.source_for_object(onnx.ModelProto.FromString(data))
            report = Report("convert")
            model = plugin.frontend_for(source).read(source, options, report)
            names = names_in_target(model, written.names)
            plugin.backend_for(form).write(model, path, form, options, report)
            runner = plugin.runner_for(written.kind)
            assert runner is not None, f"nothing runs {written.kind}"
            feeds = [names.feed(feed) for feed in feeds]
            found = runner.run(Source(written.kind, path), feeds, precision="float32", options=Options())
            return Answer("ran", outputs=[names.name_outputs(f) for f in found])
    except Unsupported as error:
        return Answer("refused", str(error), problems=tuple((p.at.operator, p.why) for p in error.problems))
    except Exception as error:
        return Answer("error", f"{type(error).__name__}: {error}"[:2000])


if __name__ == "__main__":
    # The parent unpickles `Answer` by the module's own name.
    from tests.suites.onnx_node_worker import serve as serve_as_module

    serve_as_module()
