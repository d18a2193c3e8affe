"""TorchScript programs, traced and scripted: each is run by TorchScript itself and, converted, by onnxruntime."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

from convert.frontends.pytorch.names import named_outputs  # noqa: E402
from convert.frontends.pytorch.torchscript import lower, recorded_inputs  # noqa: E402

from convert.errors import BadInput, ConvertError, Unsupported, UsageError  # noqa: E402
from convert.options import Options, parse_input  # noqa: E402
from convert.report import Report  # noqa: E402

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        yield


def scripted(thing: Any) -> Any:
    """`thing` scripted, saved and loaded again: what a reader of files gets."""
    module = torch.jit.script(thing.eval() if isinstance(thing, nn.Module) else thing)
    if not isinstance(thing, nn.Module):
        return module
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return torch.jit.load(io.BytesIO(buffer.getvalue()))


def converted(module: Any, *inputs: str, report: Report | None = None, **rest: Any) -> ir.Model:
    return lower(module, [parse_input(i) for i in inputs], {}, Options(), report or Report("test"), **rest)


def session(model: ir.Model) -> onnxruntime.InferenceSession:
    proto = ir.serde.serialize_model(model)
    onnx.checker.check_model(proto)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def agree(module: Any, model: ir.Model, *calls: tuple[Any, ...]) -> None:
    """Names, dtypes, shapes and values of the outputs are those of the program, for each call."""
    run = session(model)
    names = [i.name for i in run.get_inputs()]
    for call in calls:
        with torch.no_grad():
            expected = named_outputs(module(*(c.clone() if isinstance(c, torch.Tensor) else c for c in call)))
        feeds = {n: c.numpy() if isinstance(c, torch.Tensor) else np.array(c) for n, c in zip(names, call, strict=True)}
        results = dict(zip([o.name for o in run.get_outputs()], run.run(None, feeds), strict=True))
        assert list(results) == list(expected)
        for name, value in expected.items():
            want = value.numpy() if isinstance(value, torch.Tensor) else np.array(value)
            assert results[name].dtype == want.dtype, name
            assert results[name].shape == want.shape, name
            if want.dtype.kind == "f" and want.size:
                assert np.abs(results[name] - want).max() <= 32 * np.finfo(want.dtype).eps * max(
                    np.abs(want).max(), 1e-30
                )
            else:
                np.testing.assert_array_equal(results[name], want)


def kinds(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


# -- the fixtures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mnist_cnn_traced.pt", "mnist_cnn_scripted.pt"])
def test_fixture(name: str) -> None:
    path = FIXTURES / name
    module = torch.jit.load(path)
    report = Report("test")
    model = converted(module, report=report, recorded=recorded_inputs(path))
    assert [(v.name, str(v.shape)) for v in model.graph.inputs] == [("input", "[batch,1,28,28]")]
    assert [v.name for v in model.graph.outputs] == ["output"]
    assert model.metadata_props["convert.dims"] == '{"batch": [1, null]}'
    assert {n for n in model.graph.initializers if not n.startswith("const")} == set(module.state_dict())
    assert bool(report.notes) == ("scripted" in name)
    agree(module, model, *((torch.rand(batch, 1, 28, 28),) for batch in (1, 2, 5)))


def test_weights_are_not_copied() -> None:
    module = torch.jit.load(FIXTURES / "mnist_cnn_scripted.pt")
    model = converted(module, "input:float32[batch,1,28,28]")
    weight = model.graph.initializers["fc1.weight"].const_value.numpy()
    assert weight.ctypes.data == module.fc1.weight.data_ptr()


def test_recorded_inputs_of_the_traced_fixture() -> None:
    assert [str(i) for i in recorded_inputs(FIXTURES / "mnist_cnn_traced.pt")] == ["float32[2,1,28,28]"]
    assert recorded_inputs(FIXTURES / "mnist_cnn_scripted.pt") == ()


def test_a_batch_that_the_trace_built_in_stays() -> None:
    def f(x):
        return x.reshape(2, 12) @ torch.ones(12, 3)

    class Module(nn.Module):
        def forward(self, x):
            return f(x)

    traced = torch.jit.trace(Module(), torch.rand(2, 3, 4))
    report = Report("test")
    model = converted(traced, report=report)
    assert str(model.graph.inputs[0].shape) == "[2,3,4]"
    assert any("batch is 2" in note for note in report.notes)
    agree(traced, model, (torch.rand(2, 3, 4),))


def test_frozen_archive_keeps_its_names() -> None:
    module = torch.jit.freeze(
        torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()), optimize_numerics=False
    )
    model = converted(module, "input:float32[batch,3]")
    assert {"0.weight", "0.bias"} <= set(model.graph.initializers)
    agree(module, model, (torch.rand(5, 3),))


# -- numbers, containers, structure -----------------------------------------------------------------------------------


class Training(nn.Module):
    """A branch on a constant: dropout and batch statistics stay out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.norm.running_mean.uniform_()
        self.scale = 3
        self.mode = "up"

    def forward(self, x):
        if self.training:
            x = F.dropout(x)
        if self.mode == "up" and self.scale > 2:
            x = self.norm(x) * self.scale
        elif self.mode == "down":
            x = x / self.scale
        else:
            raise ValueError("no such mode")
        return F.leaky_relu(x, 0.2)


class Nested(nn.Module):
    """Submodules in lists, methods, helpers, and a dict of results."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    @torch.jit.export
    def twice(self, x):
        return x * 2

    def forward(self, x):
        outputs: dict[str, torch.Tensor] = {}
        for layer in self.layers:
            x = self.twice(layer(x))
        for name, head in self.heads.items():
            outputs[name] = head(x)
        return outputs


class Containers(nn.Module):
    """Lists and tuples, built, read, sliced, unpacked."""

    def forward(self, x, y):
        parts: list[torch.Tensor] = []
        for i in range(3):
            parts.append(x * i)
        parts[1] = y
        parts.insert(0, x - y)
        first, rest = parts[0], parts[1:]
        pair: tuple[torch.Tensor, tuple[torch.Tensor, int]] = (first, (rest[-1], len(rest)))
        a, (b, n) = pair
        for u, v in zip(parts, rest):
            a = a + u * v
        for i, u in enumerate(rest):
            b = b + u * i
        return torch.cat(parts, dim=1), (a, b), n, parts.pop() + torch.stack(rest).sum(0)


class Sizes(nn.Module):
    """Arithmetic on sizes that are known at run time only."""

    def forward(self, x):
        n, c, h, w = x.size()
        pad = (8 - h % 8) % 8
        x = F.pad(x, [0, pad, 0, pad])
        half = h // 2
        x = x[:, :, half:, : max(half, 2)]
        flat = x.reshape(n, c, -1).permute(0, 2, 1)
        return (
            flat.view(n, -1, c // 2, 2),
            float(h) / float(w),
            n * c,
            int(w / 2),
            -(-h // 3),
            h == w,
            (h - 20) // 3,
            (h - 20) % 3,
        )


class Optionals(nn.Module):
    def forward(self, x, mask: torch.Tensor | None = None, scale: float = 2.0, names: list[str] | None = None):
        if mask is not None:
            x = x * mask
        if names is None:
            names = ["a", "b"]
        return x * scale * len(names)


class Dynamic(nn.Module):
    """A branch on data, which writes in both or one of its sides."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        y = x + 1
        extra: list[torch.Tensor] = [x]
        kept = y[0]
        if x.sum() > 0:
            y = self.a(y)
            n = 1
            extra[0] = x * 2
        else:
            y[0] = 7.0
            y = self.b(y) - kept
            n = x.size(0)
        if bool(x.max() > 10):
            y.zero_()
        return y, n, extra[0], kept


class Returns(nn.Module):
    """Early returns become conditions with values that are never read."""

    def forward(self, x):
        if x.sum() > 100:
            return x, 0
        for i in range(4):
            x = x * 2
            if x.max() > 6:
                return x - 1, i
        return x, -1


POSITIVE, NEGATIVE = torch.rand(4, 3), -torch.rand(2, 3)

STRAIGHT = [
    (Training(), ["x:float32[batch,3,h,w]"], [(torch.rand(2, 3, 4, 5),), (torch.rand(1, 3, 2, 2),)]),
    (Nested(), ["x:float32[batch,4]"], [(torch.rand(2, 4),), (torch.rand(5, 4),)]),
    (
        Containers(),
        ["x:float32[batch,4]", "y:float32[batch,4]"],
        [(torch.rand(n, 4), torch.rand(n, 4)) for n in (2, 3)],
    ),
    (Sizes(), ["x:float32[n,4,h,w]"], [(torch.rand(n, 4, h, w),) for n, h, w in ((1, 8, 8), (2, 13, 9), (3, 22, 6))]),
    (Optionals(), ["x:float32[batch]"], [(torch.rand(3),)]),
    (Optionals(), ["x:float32[batch]", "mask:float32[batch]"], [(torch.rand(3), torch.rand(3))]),
    (Dynamic(), ["x:float32[batch,3]"], [(POSITIVE,), (NEGATIVE,), (POSITIVE * 30,)]),
    (Returns(), ["x:float32[batch,3]"], [(POSITIVE,), (NEGATIVE,), (POSITIVE * 5,), (POSITIVE * 100,)]),
]


@pytest.mark.parametrize(
    ("module", "inputs", "calls"), STRAIGHT, ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else ""
)
def test_program(module: nn.Module, inputs: list[str], calls: list[tuple[Any, ...]]) -> None:
    program = scripted(module)
    agree(program, converted(program, *inputs), *calls)


def test_branch_on_a_constant_leaves_no_if() -> None:
    model = converted(scripted(Training()), "x:float32[batch,3,h,w]")
    assert "If" not in kinds(model)


def test_branch_on_data_becomes_if() -> None:
    model = converted(scripted(Dynamic()), "x:float32[batch,3]")
    assert kinds(model).count("If") == 2


# -- loops ------------------------------------------------------------------------------------------------------------


def rows(x, w):
    y = x.new_zeros([2, 3])
    for t in x:
        y = y.mm(w) + t
    return y


def test_loop_over_rows() -> None:
    """The pair of the ONNX talk: converted once, right for 3 rows, 2 and none."""
    program = torch.jit.script(rows)
    model = converted(program, "x:float32[rows,2,3]", "w:float32[3,3]")
    assert "Loop" in kinds(model)
    agree(program, model, *((torch.rand(n, 2, 3), torch.rand(3, 3)) for n in (3, 2, 0, 7)))


def talk(y, x, w):
    for t in x:
        y = y.mm(w) + t
    return y


def static_loop(x):
    total = x
    i = 0
    while i < 5:
        i += 2
        total = total + x * i
    for j in range(3, 0, -1):
        total = total * j
    return total


def halving(x):
    steps = 0
    while bool(x.abs().max() > 1):
        x = x / 2
        steps += 1
        if steps >= 4:
            break
    return x, steps


def in_place_loop(x):
    out = torch.zeros_like(x)
    total = torch.zeros([3])
    for i in range(x.size(0)):
        out[i] = x[i] * i
        total += x[i]
    return out, total


def growing(x):
    seen: list[torch.Tensor] = []
    state = torch.zeros([3])
    for i in range(x.size(0)):
        state = torch.tanh(state + x[i])
        if i % 2 == 0:
            seen.append(state)
    return torch.stack(seen), len(seen), seen[0]


def growing_shape(x, n: int):
    y = x
    for i in range(n):
        y = torch.cat([y, x * i])
    return y


def nested_loops(x):
    total = torch.zeros([])
    count = 0
    for i in range(x.size(0)):
        for j in range(i, x.size(1)):
            if bool(x[i, j] > 0):
                total = total + x[i, j]
                count += 1
            elif bool(x[i, j] < -0.9):
                continue
    return total, count


def states(x):
    h, c = torch.zeros([2]), torch.ones([2])
    pair = (h, c)
    for i in range(x.size(0)):
        h, c = pair
        pair = (c + x[i], h)
    return pair


def fibonacci(n: int):
    a, b = 0, 1
    while a < n:
        a, b = b, a + b
    return a, b, a / b


LOOPS = [
    (
        talk,
        ["y:float32[k,3]", "x:float32[rows,k,3]", "w:float32[3,3]"],
        [(torch.rand(2, 3), torch.rand(n, 2, 3), torch.rand(3, 3)) for n in (3, 2, 0)],
    ),
    (static_loop, ["x:float32[n]"], [(torch.rand(3),)]),
    (halving, ["x:float32[n]"], [(torch.rand(3) * k,) for k in (0.5, 3, 7, 1000)]),
    (in_place_loop, ["x:float32[n,3]"], [(torch.rand(n, 3),) for n in (1, 4, 0)]),
    (growing, ["x:float32[n,3]"], [(torch.rand(n, 3),) for n in (1, 4, 5)]),
    (growing_shape, ["x:float32[n,3]", "n:int64[]"], [(torch.rand(2, 3), n) for n in (0, 1, 4)]),
    (nested_loops, ["x:float32[n,m]"], [(torch.randn(n, m),) for n, m in ((3, 4), (1, 1), (4, 2))]),
    (states, ["x:float32[n,2]"], [(torch.rand(n, 2),) for n in (0, 1, 4)]),
    (fibonacci, ["n:int64[]"], [(n,) for n in (1, 10, 1000)]),
]


@pytest.mark.parametrize(("function", "inputs", "calls"), LOOPS, ids=lambda v: v.__name__ if callable(v) else "")
def test_loop(function: Any, inputs: list[str], calls: list[tuple[Any, ...]]) -> None:
    program = torch.jit.script(function)
    model = converted(program, *inputs)
    assert ("Loop" in kinds(model)) == (function is not static_loop)
    agree(program, model, *calls)


# -- writes -----------------------------------------------------------------------------------------------------------


def aliases(x):
    y = x * 1
    z = y
    z += 1
    y.mul_(2)
    return y, z, x


def views(x):
    y = x.clone()
    row, column, flat = y[1], y[:, 0], y.view(-1)
    row.add_(10)
    column *= 2
    y[:, 1:3] = 5
    flat[0] = -1
    y.t()[0].neg_()
    return y, row, column, flat, y.unsqueeze(0).transpose(1, 2)


def activations(x):
    a = torch.relu_(x + 0.1)
    b = F.leaky_relu(x - 0.5, 0.1, inplace=True)
    c = torch.zeros_like(x)
    c[0] = a[0]
    c.clamp_(max=0.5)
    return a, b, c


def masked(x):
    y = x.clone()
    y[y > 0.5] = 0.0
    y.masked_fill_(y < 0.1, 3.0)
    return y


def dtype_kept(x):
    y = x.to(torch.int32)
    y += 2
    y.copy_(x * 3)
    y.fill_(7)
    y[0] = 1
    return y


@pytest.mark.parametrize("function", [aliases, views, activations, masked, dtype_kept])
def test_writes(function: Any) -> None:
    program = torch.jit.script(function)
    agree(program, converted(program, "x:float32[n,4]"), (torch.rand(4, 4) * 2,), (torch.rand(3, 4),))


def uncertain(x):
    y = x * 2
    z = y.reshape(-1)
    z.add_(1)
    return y


def test_write_that_another_name_may_see() -> None:
    with pytest.raises(Unsupported, match="may or may not share") as caught:
        converted(torch.jit.script(uncertain), "x:float32[n,4]")
    assert "test_torchscript.py:" in str(caught.value)


def certain_again(x):
    y = x * 2
    z = y.reshape(-1)
    z.add_(1)
    return z


def test_write_that_no_other_name_reads() -> None:
    program = torch.jit.script(certain_again)
    agree(program, converted(program, "x:float32[n,4]"), (torch.rand(3, 4),))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.calls = 0

    def forward(self, x):
        self.seen += x[0]
        self.calls += 1
        return x + self.seen


def test_state_is_refused() -> None:
    with pytest.raises(Unsupported) as caught:
        converted(scripted(Counts()), "x:float32[n,3]")
    assert "seen" in str(caught.value)
    assert "calls" in str(caught.value)
    assert "hint:" in str(caught.value)


# -- what cannot be converted -----------------------------------------------------------------------------------------


class Strange(nn.Module):
    def forward(self, x):
        y = torch.geqrf(x)[0]
        if bool(y.sum() > 0):
            y = torch.orgqr(y, x[0])
        return y + 1


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.ModuleList([Strange(), Strange()])
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        for layer in self.inside:
            x = layer(self.linear(x))
        return torch.ormqr(x, x, x)


def test_all_unsupported_operators_are_listed_with_module_and_line() -> None:
    with pytest.raises(Unsupported) as caught:
        converted(scripted(Outer()), "x:float32[3,3]")
    text = str(caught.value)
    for operator in ("geqrf", "linalg_householder_product", "ormqr"):
        assert operator in text
    assert "inside.0" in text
    assert "and 1 more like it" in text
    assert "test_torchscript.py:" in text
    assert len(caught.value.problems) == 3


def changing(x, flag):
    y = x
    if bool(flag):
        y = y.to(torch.int64)
    return y


def test_value_of_two_dtypes() -> None:
    with pytest.raises(Unsupported, match="as the data decides"):
        converted(torch.jit.script(changing), "x:float32[n]", "flag:bool[]")


class Checked(nn.Module):
    def forward(self, x):
        if x.size(1) != 3:
            raise ValueError("three channels")
        if bool(x.sum() < -1000):
            raise ValueError("too small")
        return x * 2


def test_checks_of_the_input() -> None:
    program = scripted(Checked())
    report = Report("test")
    agree(program, converted(program, "x:float32[n,3]", report=report), (torch.rand(2, 3),))
    assert any("check at" in note for note in report.notes)
    with pytest.raises(BadInput, match="three channels"):
        converted(program, "x:float32[n,4]")


def test_undescribed_inputs() -> None:
    with pytest.raises(UsageError, match="x, y"):
        converted(scripted(Containers()))
    with pytest.raises(UsageError, match="no input 'z'"):
        converted(scripted(Containers()), "z:float32[2,4]")


# -- networks ---------------------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    """A cell in a loop over time, with a state of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(9, 20)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        h, c = torch.zeros(x.size(1), 5), torch.zeros(x.size(1), 5)
        outputs: list[torch.Tensor] = []
        for t in range(x.size(0)):
            i, f, g, o = self.gates(torch.cat([x[t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(self.head(h))
        return torch.stack(outputs), (h, c)


def test_cell_in_a_loop_over_time() -> None:
    program = scripted(Recurrent())
    model = converted(program, "x:float32[time,batch,4]")
    agree(program, model, *((torch.rand(t, b, 4),) for t, b in ((3, 2), (1, 1), (7, 3))))


@pytest.mark.parametrize("way", ["trace", "script"])
def test_transformer_layer(way: str) -> None:
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        x = torch.rand(2, 5, 8)
        program = torch.jit.trace(module, x) if way == "trace" else scripted(module)
        model = converted(program, "src:float32[batch,5,8]")
        agree(program, model, (torch.rand(3, 5, 8),))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_errors_are_one_paragraph() -> None:
    with pytest.raises(ConvertError) as caught:
        converted(torch.jit.script(uncertain), "x:float32[n,4]")
    assert "\n" not in caught.value.message
