"""A net in an operator's arguments; the rules of If and While write it where they need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from convert.files.caffe2.netdef import Net, walk
from convert.graph import Graph

Values = dict[str, ir.Value]


@dataclass(frozen=True)
class NestedNet:
    """A nested net, which reads and writes outer blobs; `outside` maps those to their values before the operator."""

    net: Net
    outside: Values
    lower: Callable[[Graph, Net, Values], None]

    def written(self) -> list[str]:
        """Return the names of the outer blobs that this net, or a net inside it, writes, in order."""
        made = dict.fromkeys(name for op in walk(self.net) for name in op.outputs)
        return [name for name in made if name in self.outside]

    def run(self, g: Graph, replaced: Values) -> Values:
        """Write the net to `g` with some blobs `replaced`; return all blobs as they are after it."""
        values = {**self.outside, **replaced}
        self.lower(g, self.net, values)
        return values
