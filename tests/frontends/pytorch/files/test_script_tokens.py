"""TorchScript code is tokenized as in PyTorch, in a time proportional to the code."""

from __future__ import annotations

import time
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from convert.frontends.pytorch.files.script_tokens import script_tokens
from convert.frontends.pytorch.files.torchscript_safety import refuse_damaged_debug_info, refuse_unsafe

from convert import limits
from convert.errors import BadInput, ResourceLimit, UnsafeInput
from tests.suites.hostile_files.case import FIXTURES, members, stored

SCRIPTED = FIXTURES / "mnist_cnn_scripted.pt"
EVIL = "ops.profiler._record_function_exit(input)"

CODES = {
    "a.b = 'c'  # d": ["a", ".", "b", "=", "'c'"],
    "a # type: b": ["a", "#", "type", ":", "b"],
    "x = 0x1.\nops.f()": ["x", "=", "0x1", ".", "ops", ".", "f", "(", ")"],
    "x\\\n.save": ["x", ".", "save"],
    "x # \\\ny": ["x", "y"],
    r"'a\'b' + " '"c\\\nd"': [r"'a\'b'", "+", '"c\\\nd"'],
    "'''a'b\n''c''' ''": ["'''a'b\n''c'''", "''"],
    '"""a""""b"': ['"""a"""', '"b"'],
    "r'a'": ["r", "'a'"],
    "é".join("''"): ["'é'"],
}


@pytest.mark.parametrize("code", CODES)
def test_tokens(code: str) -> None:
    assert script_tokens(code) == CODES[code]


@pytest.mark.parametrize("code", ["x = 'a", "x = 'a\nb'", "x = '''a''", "é = 1", "x =\xa01", "x = a\ufffd.save", "'"])
def test_what_is_no_torchscript(code: str) -> None:
    with pytest.raises(ValueError, match=r"does not end|no character"):
        script_tokens(code)


def _code_name(content: dict[str, bytes]) -> str:
    """The file with the outermost module's forward."""
    return next(n for n in content if n.endswith(".py") and b"class Sequential" in content[n])


def _with_statements(path: Path, body: str) -> Path:
    """The scripted network with lines at the beginning of a method of 4 blanks."""
    content = members(SCRIPTED)
    name = _code_name(content)
    lines = content[name].decode().split("\n")
    place = next(i for i, line in enumerate(lines) if "def forward" in line)
    place = next(i for i in range(place, len(lines)) if lines[i].endswith(":"))
    lines.insert(place + 1, body)
    return stored(path, content | {name: "\n".join(lines).encode()})


BODIES = {
    "as it is": EVIL,
    "behind a number with a point": f"_0 = 0x1.\n    {EVIL}",
    "behind a point number": f"_0 = 1.\n    {EVIL}",
    "behind a short number": f"_0 = .5\n    {EVIL}",
    "behind a comment that ends": f"# a\n    {EVIL}",
    "behind a text": f"_0 = 'it\\'s #'\n    {EVIL}",
    "behind a long text": f"_0 = '''it's\n'''\n    {EVIL}",
    "behind a long text of quotes": f'_0 = """a"" """\n    {EVIL}',
    "on a line that goes on": f"_0 = \\\n  {EVIL}",
}


@pytest.mark.parametrize("case", BODIES)
def test_a_call_that_pytorch_reads_is_seen(case: str, tmp_path: Path) -> None:
    """PyTorch confirms this: the call is in the graph that it makes of the file."""
    path = _with_statements(tmp_path / "m.pt", "    " + BODIES[case])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "_record_function_exit" in str(torch.jit.load(path).graph)
    with pytest.raises(UnsafeInput, match="which is no call of a known one"):
        refuse_unsafe(path)


@pytest.mark.parametrize("body", [f"# {EVIL}", f"_0 = '''{EVIL}'''", f"_0 = 'a\\\n{EVIL}'", "_0 = self.relu1\n"])
def test_what_pytorch_takes_for_no_call_is_none(body: str, tmp_path: Path) -> None:
    path = _with_statements(tmp_path / "m.pt", "    " + body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "_record_function_exit" not in str(torch.jit.load(path).graph)
    refuse_unsafe(path)


LINE = "  _0 = torch.add(torch.conv2d(x, self.w, None, [1, 1]), ops.quantized.linear(x, 1), alpha=1)\n"


@pytest.mark.parametrize(
    "part",
    [LINE, "(", "a.", "getattr(self, '0')\n", "\\'''\n", "'''a\n", '"a" ', '\\"""\\', "#\n", "ops.aten.add(x)\n"],
)
def test_a_megabyte_takes_a_second_at_most(part: str) -> None:
    """Python's tokenizer took 2.4 s for the first and 6 s for the second; this one takes 0.1 to 0.4 s."""
    code = part * ((1 << 20) // len(part))
    times = []
    for text in (code[: 1 << 18], code):
        began = time.process_time()
        with suppress(ValueError):
            script_tokens(text)
        times.append(time.process_time() - began)
    assert times[1] < max(20 * times[0], 2.0), times


def test_how_much_code_an_archive_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for all files together, including debug information."""
    for name, end in (("TORCHSCRIPT_CODE_BYTES", ".py"), ("TORCHSCRIPT_DEBUG_BYTES", ".debug_pkl")):
        with zipfile.ZipFile(SCRIPTED) as archive:
            sizes = [entry.file_size for entry in archive.infolist() if entry.filename.endswith(end)]
        check = refuse_unsafe if end == ".py" else refuse_damaged_debug_info
        monkeypatch.setattr(limits, name, sum(sizes))
        check(SCRIPTED)
        monkeypatch.setattr(limits, name, max(sizes))
        with pytest.raises(ResourceLimit, match="are looked through"):
            check(SCRIPTED)


def test_two_files_of_one_name_are_both_looked_at(tmp_path: Path) -> None:
    """The name after "code/" was the key, so the second file hid the first."""
    path = _with_statements(tmp_path / "m.pt", "    " + EVIL)
    content = members(path)
    name = _code_name(content)
    stored(path, content | {name.replace("code/", "zcode/"): b""})
    with pytest.raises((UnsafeInput, BadInput)):
        refuse_unsafe(path)
