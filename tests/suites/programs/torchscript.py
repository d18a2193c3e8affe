"""TorchScript programs of functions: branches, loops, lists, dicts, strings, writes, each at several sizes."""

# ruff: noqa: UP006, UP035, UP045, SIM108, SIM905, RUF005, C416, B905  (the language that is tested is no Python)
from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from tests.suites.programs.torch_program import i, script


class Box(NamedTuple):
    low: Tensor
    high: Tensor


# -- branches --------------------------------------------------------------------------------------------------------


@script()
def by_size(x: Tensor) -> Tensor:
    if x.shape[0] > 3:
        return x + 1
    return x - 1


@script()
def by_parity(x: Tensor) -> Tensor:
    if x.size(0) % 2 == 0:
        x = x * 2
    elif x.size(0) == 1:
        x = x * 3
    else:
        x = -x
    return x


@script()
def by_length(x: Tensor) -> int:
    n = len(x)
    return n * 2 if n > 2 else -n


@script()
def by_elements(x: Tensor) -> Tensor:
    return x.sum() if x.numel() > 5 else x.mean()


@script()
def by_sum(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        y = x.exp()
    else:
        y = x.abs()
    return y + 1


@script()
def early_return(x: Tensor) -> Tensor:
    if float(x.max()) > 1.5:
        return x
    y = x * 2
    if float(y.min()) < -3.0:
        return y - 1
    return y + 1


@script()
def both_names(x: Tensor) -> Tuple[Tensor, Tensor]:
    a, b = x, x + 1
    if bool(x[0, 0] > 0):
        a, b = b, a
    a.mul_(2)
    return a, b


@script()
def shortest(x: Tensor) -> Tensor:
    n = min(x.shape[0], 3)
    return x[:n] * max(n, 2)


@script()
def chained(x: Tensor) -> Tensor:
    if 1 < x.shape[0] <= 4 and not (x.shape[1] == 2 or x.shape[0] == 3):
        return x.t()
    return x.t() * 2


# -- loops -----------------------------------------------------------------------------------------------------------


@script()
def for_range(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for k in range(x.shape[0]):
        total = total * 0.5 + x[k] * k
    return total


@script()
def for_rows(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for row in x:
        if bool(row.sum() < 0):
            continue
        total = total + row
    return total


@script()
def broken_off(x: Tensor) -> Tuple[Tensor, int]:
    total, at = torch.zeros(3), 0
    for k in range(x.shape[0]):
        total = total + x[k]
        at = k
        if bool(total.sum() > 1):
            break
    return total, at


@script()
def while_norm(x: Tensor) -> Tuple[Tensor, int]:
    rounds = 0
    while bool(x.norm() > 0.1) and rounds < 20:
        x = x * 0.5
        rounds += 1
    return x, rounds


@script()
def nested_loops(x: Tensor) -> Tensor:
    out = x.clone()
    for a in range(x.shape[0]):
        for b in range(a):
            out[a] += x[b] * 0.1
    return out


@script()
def returned_inside(x: Tensor) -> Tensor:
    for k in range(x.shape[0]):
        if bool(x[k, 0] > 0):
            return x[k] * 10
    return torch.zeros(3)


@script()
def fibonacci(x: Tensor) -> Tensor:
    a, b = 0, 1
    for _ in range(x.shape[0]):
        a, b = b, a + b
    return x + a


@script()
def backwards(x: Tensor) -> Tensor:
    state = torch.zeros(3)
    for k in range(x.shape[0] - 1, -1, -1):
        state = torch.tanh(state + x[k])
    return state


@script()
def written_rows(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for k in range(x.shape[0]):
        out[k] = x[x.shape[0] - 1 - k]
    return out


@script()
def view_in_loop(x: Tensor) -> Tensor:
    y = x.clone()
    last = y[-1]
    for _ in range(3):
        last.mul_(0.5)
    return y


# -- lists, dicts, tuples, optionals ---------------------------------------------------------------------------------


@script()
def list_of_tensors(x: Tensor) -> Tensor:
    rows: List[Tensor] = []
    for k in range(x.shape[0]):
        rows.append(x[k] * k)
    return torch.stack(rows)


@script()
def list_popped(x: Tensor) -> Tensor:
    rows = [x, x + 1, x + 2]
    last = rows.pop()
    rows.insert(0, last * 2)
    rows.reverse()
    return torch.cat(rows + [x])


@script()
def list_of_ints(x: Tensor) -> Tensor:
    sizes: List[int] = []
    for d in x.shape:
        sizes.append(d * 2)
    sizes.append(1)
    return torch.ones(sizes) * sizes[0] + sum(sizes)


@script()
def list_alias(x: Tensor) -> Tensor:
    rows = [x.clone(), x.clone()]
    same = rows
    same[0].add_(1)
    same[1] = x * 3
    return rows[0] + rows[1]


@script()
def comprehension(x: Tensor) -> Tensor:
    return torch.stack([row * 2 for row in x.unbind(1)], 1) + sum([k for k in range(4)])


@script()
def zipped(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[0])
    for k, (a, w) in enumerate(zip(x.unbind(1), [0.5, 1.5, 2.5])):
        total = total + a * w * k
    return total


@script()
def dict_changed(x: Tensor) -> Dict[str, Tensor]:
    found: Dict[str, Tensor] = {"a": x}
    found["b"] = x + 1
    found["a"] = found["a"] * 2
    if "c" not in found:
        found["c"] = found.pop("b") - 1
    return found


@script()
def dict_walked(x: Tensor) -> Tensor:
    parts = {"one": x, "two": x * 2}
    total = torch.zeros_like(x)
    for name, value in parts.items():
        total = total + value * len(name)
    return total * len(parts)


@script()
def dict_of_ints(x: Tensor) -> Tensor:
    table = {3: 1.0, 4: 2.0, 1: 3.0}
    key = x.shape[1]
    return x * table[key] if key in table else x


@script()
def optional_made(x: Tensor) -> Tensor:
    extra: Optional[Tensor] = None
    if x.shape[0] > 2:
        extra = x.sum(0)
    if extra is not None:
        return x + extra
    return x


@script()
def optional_kept(x: Tensor) -> Tensor:
    best: Optional[Tensor] = None
    for row in x:
        if best is None:
            best = row
        else:
            best = torch.maximum(best, row)
    assert best is not None
    return best


@script()
def named_tuple(x: Tensor) -> Box:
    box = Box(x.amin(0), x.amax(0))
    return Box(box.low - 1, box.high + box.low)


@script()
def nested_out(x: Tensor) -> Tuple[Tensor, List[Tensor], Dict[str, Tensor]]:
    return x, [x + 1, x + 2], {"k": x * 3}


# -- strings, numbers ------------------------------------------------------------------------------------------------


@script()
def strings(x: Tensor) -> Tensor:
    mode = "relu" + "_" + str(2)
    if mode.startswith("relu") and mode[-1] == "2" and "x".join(["a", "b"]) == "axb":
        x = x.relu()
    for part in "a,b,c".split(","):
        if part != "b":
            x = x + 1
    return x * len(f"{mode}!")


@script()
def python_arithmetic(x: Tensor) -> Tuple[int, float, int, int, bool]:
    n = x.shape[0]
    return -n // 3, n / 4, -n % 3, int(n * 1.7), n**2 > 10


@script()
def tensor_numbers(x: Tensor) -> Tensor:
    n = int(x.abs().sum().item()) % 3
    scale = float(x[0, 0])
    return x * n + scale


@script(i(4), i(1), i(7))
def integer_tensors(n: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    return n // 3, (n - 4) % 3, n.float() / n.clamp(min=1)


@script()
def overflow(x: Tensor) -> Tensor:
    n = x.shape[0]
    k = (1 << 40) + n
    return (x * 0).long() + k


# -- writes ----------------------------------------------------------------------------------------------------------


@script()
def view_written(x: Tensor) -> Tensor:
    y = x.clone()
    z = y[0]
    z += 1
    y[:, 1] *= 2
    return y + z


@script()
def branch_written(x: Tensor) -> Tuple[Tensor, Tensor]:
    y = x.clone()
    top = y[0]
    if bool(x.sum() > 0):
        top.zero_()
    else:
        y.add_(1)
    return y, top


@script()
def chain_in_place(x: Tensor) -> Tensor:
    return x.clone().add_(1).mul_(2).clamp_(min=0).sub_(0.5).t_()


@script()
def masked(x: Tensor) -> Tensor:
    y = x.clone()
    y[y > 0] = 5.0
    y.masked_fill_(y < -1, 0.0)
    return y


@script()
def truth_of_bytes(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    flags = (x[x > 0] > 1).to(torch.uint8)
    return flags.any(), flags.all() + 1, torch.square(x[x > 0] > 1) * 3
