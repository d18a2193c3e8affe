"""A net among an operator's arguments, for the rules of If and While to write where they want it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from convert.files.caffe2.netdef import Net, walk
from convert.graph import Graph

Values = dict[str, ir.Value]


@dataclass(frozen=True)
class NestedNet:
    """Nets read and write the blobs around them: `outside` are those blobs as they are before the operator."""

    net: Net
    outside: Values
    lower: Callable[[Graph, Net, Values], None]

    def written(self) -> list[str]:
        """Names of the blobs that it, or a net inside of it, writes and that are there before it, in their order."""
        made = dict.fromkeys(name for op in walk(self.net) for name in op.outputs)
        return [name for name in made if name in self.outside]

    def run(self, g: Graph, replaced: Values) -> Values:
        """Write the net to `g` with some blobs `replaced`; all blobs as they are after it."""
        values = {**self.outside, **replaced}
        self.lower(g, self.net, values)
        return values
