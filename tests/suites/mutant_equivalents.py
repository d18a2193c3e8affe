"""Single mutants that are equivalent to the program, with the reason."""

from __future__ import annotations

import re

from mutant_classes import CLASSES, CLASSES_OF_FILES

EQUIVALENTS: dict[tuple[str, str, str], str] = {
    ("dense.py", "full = rank(node.outputs[0])", "full = rank(node.outputs[ -1])"): (
        "mean and deviation of a LayerNormalization have the rank of its output"
    ),
    (
        "min_cut.py",
        "found += [(moved, t, infinite) for t in targets if moved != MOVED]",
        "found += [(moved, t, infinite) for t in targets if moved > MOVED]",
    ): "it is MOVED or a vertex of its own",
    **{
        (
            "outputs.py",
            "if not pairs or pairs[0][0].shape[-1] < 2:",
            f"if not pairs or pairs[0][{other}].shape[-1] < 2:",
        ): "both are of one shape"
        for other in (" -1", " 1")
    },
    **{
        (
            "weights.py",
            'if node.op_type == "Constant" and not node.domain and node.outputs[0].const_value is None:',
            f'if node.op_type {other} "Constant" and not node.domain and node.outputs[0].const_value is None:',
        ): "of other nodes there is no tensor"
        for other in ("<=", ">=")
    },
    (
        "model.py",
        "return Side.FREE if len(kept) > 2 and order == [kept[i] for i in move(len(kept))] else None",
        "return Side.FREE if len(kept) > 1 and order == [kept[i] for i in move(len(kept))] else None",
    ): "two dims are not moved, and in their order they are as is",
    ("move_through_reshape.py", "first.graph.remove(first, safe=True)", "first.graph.remove(first, safe=False)"): (
        "it looks whether the node is read, which it is not"
    ),
    ("randomness.py", "before = -1", "before = ~1"): "no table has so many entries",
    ("min_cut.py", "infinite = sum(prices) + 1", "infinite = sum(prices) | 1"): (
        "all as is or all moved costs half of the sum at most, which is less than the sum too"
    ),
    (
        "special.py",
        "wrong |= finite & (size < BEYOND) & (np.abs(np.where(finite, given - source, 0)) > bound)",
        "wrong |= finite & (size < BEYOND) & (np.abs(np.where(finite, given - source, -1)) > bound)",
    ): "only what is finite counts",
    ("boundary.py", "full = rank(value) or 0", "full = rank(value) or -1"): "neither is more than 2",
    ("min_cut.py", "infinite = sum(prices) + 1", "infinite = sum(prices) - 1"): (
        "no price is less than 2, and a cut costs none or from that to half of the sum"
    ),
    ("min_cut.py", "if len(targets) > 1:", "if len(targets) > 0:"): (
        "of one target both vertices are the target, which has no edge to itself"
    ),
    (
        "weights.py",
        "apart = direct if direct == 0 else min(direct, _rms(np.sort(a) - np.sort(b)))",
        "apart = direct if direct <= 0 else min(direct, _rms(np.sort(a) - np.sort(b)))",
    ): "a root mean square is not negative",
    (
        "compose_transposes.py",
        "return shape[index] in named and named.count(shape[index]) == 1 and list(shape).count(shape[index]) == 1",
        "return shape[index] in named and named.count(shape[index]) <= 1 and list(shape).count(shape[index]) == 1",
    ): "what is among them is there once at the least",
    (
        "counterparts.py",
        "if len(set(found.values())) < len(found):",
        "if len(set(found.values())) != len(found):",
    ): "a set has no more than what it is made of",
    (
        "size_search.py",
        "if number > 0 and number % c == 0 and isqrt(number // c) ** 2 == number // c > 1",
        "if number > 0 and number % c == 0 and isqrt(number // c) ** 2 == number // c != 1",
    ): "what c divides holds it once at the least",
    (
        "move_through_reshape.py",
        "i, j = (i + 1, j) if sizes[0] < sizes[1] else (i, j + 1)",
        "i, j = (i + 1, j) if sizes[0] <= sizes[1] else (i, j + 1)",
    ): "where they are equal the loop has ended",
    (
        "compose_transposes.py",
        "return sorted(groups, key=lambda g: first.index(g[0])), groups",
        "return sorted(groups, key=lambda g: first.index(g[ -1])), groups",
    ): "a group is a row of neighbors: by their first as by their last they are in one order",
    (
        "move_through_reshape.py",
        "while i < len(before) and j < len(after):",
        "while i is not len(before) and j < len(after):",
    ): "it goes up to the length and not beyond, and Python has one object of each small number",
    (
        "reshape_rules.py",
        "return before == after and _copies_dim(node, after)",
        "return before is after and _copies_dim(node, after)",
    ): "Python has one object of each small number",
    (
        "special.py",
        '"Expand": 1, "Reshape": 1, "ConstantOfShape": 0, "Tile": 1, "Range": 0, "Resize": 1, "Slice": 1, "Loop": 0,',
        '"Expand": 1, "Reshape": 1, "ConstantOfShape": 0, "Tile": 1, "Range": -1, "Resize": 1, "Slice": 1, "Loop": 0,',
    ): "all inputs come after -1 as after 0",
    (
        "dense.py",
        "tensor = constant(add.inputs[1 - uses[0].idx])",
        "tensor = constant(add.inputs[1 ^ uses[0].idx])",
    ): "of 0 and 1 the other one either way",
    **{
        (
            "onnx_schemas.py",
            "Argument(i.name, REQUIRED if i.option == _Option.Single else None)",
            f"Argument(i.name, REQUIRED if i.option {operator} _Option.Single else None)",
        ): "there is one object of each option, and Single is the least of them"
        for operator in ("is", "<=")
    },
    (
        "rewrite.py",
        "return value if self.stored.get(value, False) == moved else self._transposed_copy(value, moved)",
        "return value if self.stored.get(value, False) is moved else self._transposed_copy(value, moved)",
    ): "both are True or False",
    (
        "assign.py",
        "value, moved = node.inputs[0], move(len(perm))",
        "value, moved = node.inputs[ -1], move(len(perm))",
    ): ("a Transpose has one input"),
    ("dense.py", "y = node.outputs[0]", "y = node.outputs[ -1]"): "a MatMul has one output",
    (
        "min_cut.py",
        "return [i == MOVED if i <= MOVED else bool(side[i] != flipped[i]) for i in range(count)]",
        "return [i >= MOVED if i <= MOVED else bool(side[i] != flipped[i]) for i in range(count)]",
    ): "of the numbers up to MOVED, 0 and 1, MOVED is the larger",
    **{
        (
            "min_cut.py",
            "step = min(len(terms) + 1, max(2, _BUDGET // sum(prices)))",
            f"step = min(len(terms) {operator} 1, max(2, _BUDGET // sum(prices)))",
        ): "a step of the number of terms is enough: what is dearer by one unit leaves out a term that counts"
        for operator in ("<<", "|", "*", "/", "//")
    },
    (
        "move_through_reshape.py",
        "if wanted.count(-1) > 1 and isinstance(shape[0], str) and shape[0] == source[0]:",
        "if wanted.count(- 0) > 1 and isinstance(shape[0], str) and shape[0] == source[0]:",
    ): "sizes of 0 are refused in the next line",
    (
        "listing.py",
        "if new != name:",
        "if new is not name:",
    ): "what is not renamed keeps its name",
    ("onnx_schemas.py", "", "def schema(operator: str) -> Schema | None:"): "the cache saves time",
    ("onnx_schemas.py", "@cache", "def schema(operator: str) -> Schema | None:"): "the cache saves time",
    (
        "onnx_schemas.py",
        "if i.option != _Option.Variadic",
        "if i.option is not _Option.Variadic",
    ): "there is one object of each option",
    (
        "onnx_schemas.py",
        "if i.option != _Option.Variadic",
        "if i.option < _Option.Variadic",
    ): "Variadic is the last of the three options",
    (
        "table.py",
        "accepted = entry.keyword | set(entry.positional[len(values) :])",
        "accepted = entry.keyword ^ set(entry.positional[len(values) :])",
    ): "a parameter is positional or keyword, never both",
    (
        "compose_transposes.py",
        "ir.convenience.replace_nodes_and_values(graph, row[-1], [row[-1]], made, [old], [new])",
        "ir.convenience.replace_nodes_and_values(graph, row[- 0], [row[-1]], made, [old], [new])",
    ): "what is made reads what the first of the row reads: it may stand behind that one as well",
    (
        "compose_transposes.py",
        "ir.convenience.replace_nodes_and_values(graph, row[-1], [row[-1]], made, [old], [new])",
        "ir.convenience.replace_nodes_and_values(graph, row[- 2], [row[-1]], made, [old], [new])",
    ): "what is made reads what the first of the row reads: it may stand behind any of the row",
    (
        "assign.py",
        "if perm is not None and len(perm) > 2 and rank(node.inputs[0]) == rank(node.outputs[0]) == len(perm):",
        "if perm is not None and len(perm) > 2 and rank(node.inputs[ -1]) == rank(node.outputs[0]) == len(perm):",
    ): "a Transpose has one input",
    ("rules.py", "numbers = list(range(starts.shape[0]))", "numbers = list(range(starts.shape[ -1]))"): (
        "starts have one dim"
    ),
    (
        "special.py",
        "wrong = np.asarray((got != source) & certain)",
        "wrong = np.asarray((got != source) // certain)",
    ): "of booleans: x // True is x, and x // False is 0",
    **{
        (
            "rules.py",
            'axis = node.attributes.get_int("axis", -1) % full',
            f'axis = node.attributes.get_int("axis", {other}) % full',
        ): "a norm over the last dim alone never stays it, and its scale of one dim is none of several dims"
        for other in ("- 0", "- 2", "+1", " 1", "~1", "not 1")
    },
    (
        "rules.py",
        "if node.domain or node.op_type not in table or all((rank(x) or 0) < 3 for x in tensors):",
        "if node.domain or node.op_type not in table or all((rank(x) or 0) < 2 for x in tensors):",
    ): "what would move a value of two dims is refused below",
    ("reshape_rules.py", "full = rank(node.inputs[0])", "full = rank(node.inputs[ -1])"): "a Flatten has one input",
    (
        "compose_transposes.py",
        "x, y = row[0].inputs[0], row[-1].outputs[0]",
        "x, y = row[0].inputs[0], row[- 2].outputs[0]",
    ): "what is made is only named after it, and its end gets the old name",
    (
        "compose_transposes.py",
        "return math.prod(known) if len(known) == len(sizes) else sizes[0] if len(sizes) == 1 else None",
        "return math.prod(known) if len(known) >= len(sizes) else sizes[0] if len(sizes) == 1 else None",
    ): "no more are known than there are",
    (
        "cancel.py",
        'if node.op_type != "Transpose" or node.domain or node.inputs[0] is None:',
        'if node.op_type != "Transpose" or node.domain or node.inputs[ -1] is None:',
    ): "a Transpose has one input",
    ("min_cut.py", "infinite = sum(prices) + 1", "infinite = sum(prices) + 2"): "it is above all others either way",
    ("min_cut.py", "infinite = sum(prices) + 1", "infinite = sum(prices) // 1"): (
        "all as is or all moved costs half of the sum at most, which is less than the sum too"
    ),
    (
        "move_through_reshape.py",
        "known = [[d for d in side if isinstance(d, int) and d > 0] for side in (before, after)]",
        "known = [[d for d in side if isinstance(d, int) and d > -1] for side in (before, after)]",
    ): "sizes of 0 are refused where the target is written",
    (
        "verify.py",
        "stand_ins = 0 if isinstance(double, Unsupported) else max(0, count - len(double))",
        "stand_ins = 1 if isinstance(double, Unsupported) else max(0, count - len(double))",
    ): "whoever asks how many there are looks first whether there is a run in float64",
    (
        "compose_transposes.py",
        "node.outputs[0].type, node.outputs[0].shape = x.type, ir.Shape([factors.size(part) for part in target])",
        "node.outputs[ -1].type, node.outputs[0].shape = x.type, ir.Shape([factors.size(part) for part in target])",
    ): "it has one output",
    (
        "rules.py",
        'keep = rank(node.inputs[1]) if node.op_type == "Gather" else node.attributes.get_int("keepdims", 1)',
        'keep = rank(node.inputs[1]) if node.op_type >= "Gather" else node.attributes.get_int("keepdims", 1)',
    ): "the others are ArgMax and ArgMin",
    ("compose_transposes.py", "moves = perm != sorted(perm)", "moves = perm > sorted(perm)"): (
        "of all orders the sorted one is the least"
    ),
    (
        "compose_transposes.py",
        "old, new = row[-1].outputs[0], made[-1].outputs[0]",
        "old, new = row[-1].outputs[0], made[-1].outputs[ -1]",
    ): "it has one output",
    ("chain.py", "if len(chain) == 2:", "if len(chain) <= 2:"): "a chain has two artefacts at the least",
    (
        "verify.py",
        "return next((f for f in feeds if f.label == label), smallest)",
        "return next((f for f in feeds if f.label is label), smallest)",
    ): "the label was taken from a feed",
    (
        "as_used.py",
        "if setting and len({name for name, _ in errors}) < len(self.children):",
        "if setting and len({name for name, _ in errors}) is not len(self.children):",
    ): "no more settings fail than there are",
    **{
        (
            "move_through_reshape.py",
            "return rest is not None and rest[0] == rest[1]",
            f"return rest is not None and rest[{a}] {operator} rest[{b}]",
        ): "groups are only found for as many elements on both sides"
        for a, operator, b in (("0", "<=", "1"), ("0", ">=", "1"), (" 1", "==", "1"), ("0", "==", " 0"))
    },
    (
        "move_through_reshape.py",
        "if wanted.count(-1) > 1 and isinstance(shape[0], str) and shape[0] == source[0]:",
        "if wanted.count(-1) > 0 and isinstance(shape[0], str) and shape[0] == source[0]:",
    ): "of one dim that is not known, what is left is what would be copied",
}
"""Name of the file, the line, the line as changed; and why both are the same program."""


def reason_of_equivalence(file: str, line: str, changed: str) -> str:
    """Return why a mutant is the same program, or "" if it is not declared to be."""
    of_file = [rest for files, *rest in CLASSES_OF_FILES if re.fullmatch(files, file)]
    for pattern, becomes, reason in [*CLASSES, *of_file]:
        for found in re.finditer(pattern, line):
            if line[: found.start()] + found.expand(becomes) + line[found.end() :] == changed:
                return reason
    return EQUIVALENTS.get((file, line, changed), "")
