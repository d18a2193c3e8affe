"""The drawing of a graph, created in the reader's browser by the modules of Netron (package `netron`)."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx_ir as ir

from convert.graph.metadata import MODULE_KEY, SOURCE_KEY
from convert.graph.tensors import dtype_name
from convert.graph.values import known_dims
from convert.outcome.extras import install_command
from convert.outcome.text import visible
from convert.pages.template import script, section, soft

MAX_NODES = 1500
"""Maximum number of nodes, which a browser lays out in some seconds; a larger graph is drawn by its modules."""
_MOST_ATTRIBUTES = 6
_LONGEST = 60
_COLORED = frozenset(
    ("layer", "activation", "pool", "normalization", "dropout", "shape", "tensor", "transform", "data", "quantization",
     "attention", "constant")
)  # fmt: skip
"""The kinds of operators that Netron's style sheet has colours for."""

# Netron loads a module's frame by a relative path, which does not exist for a page in one file.
_DRAW = """
const textOf = id => document.getElementById(id).textContent.split("\\n").slice(1, -1).join("\\n");
const moduleOf = code => URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
const layout = moduleOf(textOf("netron-dagre"));
const grapher = moduleOf(textOf("netron-grapher").replaceAll("./dagre.js", layout));
const { Graph, Node, Edge, Argument } = await import(grapher);
const { nodes, edges } = JSON.parse(textOf("graph-data"));
const graph = new Graph(false), views = [];
graph.options = { direction: "vertical" };
for (const node of nodes) {
  const view = new Node();
  view.name = String(views.length);
  view.class = "graph-node";
  const head = view.header().add(null, ["node-item-type", "node-item-type-" + node.category]);
  head.content = node.operator;
  head.tooltip = node.about;
  if (node.rows.length) {
    const list = view.list();
    for (const [name, value] of node.rows) {
      const row = new Argument(name, value);
      row.separator = ": ";
      list.add(row);
    }
  }
  views.push(view);
  graph.setNode(view);
}
for (const [from, to, label] of edges) {
  const edge = new Edge(views[from], views[to]);
  edge.v = String(from);
  edge.w = String(to);
  edge.label = label;
  graph.setEdge(edge);
}
const frame = document.getElementById("graph"), origin = document.getElementById("origin");
graph.build(document, origin);
await graph.measure();
await graph.layout(null);
graph.update();
const box = origin.getBBox(), width = box.width + 16, height = box.height + 16;
frame.setAttribute("viewBox", [box.x - 8, box.y - 8, width, height].join(" "));
let scale = 1;
const show = () => { frame.style.width = width * scale + "px"; frame.style.height = height * scale + "px"; };
for (const [id, factor] of [["larger", 1.25], ["smaller", 0.8]])
  document.getElementById(id).onclick = () => { scale *= factor; show(); };
show();
document.getElementById("graph-state").textContent = "";
document.body.dataset.drawn = String(nodes.length);
"""

_STYLE = """
#graph-frame { overflow: auto; max-height: 80vh; background: #fff; border: 1px solid var(--rule);
  border-radius: .4rem; } #graph { max-width: none; display: block; margin: 0 auto; }
"""


def draw_graph(graph: ir.Graph) -> str:
    """Return the section of a page that draws `graph`, or says what is missing for a drawing."""
    files = _package_files()
    if files is None:
        return section("Graph", soft(f"Netron draws it here where it is installed: {install_command('netron')}"))
    drawn, about = _drawn_nodes(graph, _categories(files))
    if not drawn["nodes"]:
        return section("Graph", soft(about))
    data = json.dumps(drawn, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    sources = {"netron-dagre": files / "dagre.js", "netron-grapher": files / "grapher.js"}
    modules = "".join(
        script(path.read_text("utf-8"), "text/plain").replace("<script", f'<script id="{name}"', 1)
        for name, path in sources.items()
    )
    return section(
        "Graph",
        f"<style>{(files / 'grapher.css').read_text('utf-8')}{_STYLE}</style>",
        soft(f"{about} Drawn by the modules of Netron, © Lutz Roeder, MIT license."),
        '<p><button id="larger">larger</button> <button id="smaller">smaller</button> '
        '<span class="soft" id="graph-state">laying it out …</span></p>',
        '<div id="graph-frame"><svg id="graph" xmlns="http://www.w3.org/2000/svg"><g id="origin"></g></svg></div>',
        script(data, "application/json").replace("<script", '<script id="graph-data"', 1),
        modules,
        script(_DRAW, "module"),
    )


def _package_files() -> Path | None:
    found = find_spec("netron")
    folder = None if found is None or found.origin is None else Path(found.origin).parent
    needed = ("dagre.js", "grapher.js", "grapher.css", "onnx-metadata.json")
    return folder if folder is not None and all((folder / name).is_file() for name in needed) else None


def _categories(files: Path) -> dict[str, str]:
    rows = json.loads((files / "onnx-metadata.json").read_text("utf-8"))
    found = {row["name"]: str(row.get("category", "")).lower() for row in rows if row.get("category")}
    return {name: category for name, category in found.items() if category in _COLORED}


def _drawn_nodes(graph: ir.Graph, categories: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Return nodes and edges of the drawing, and a sentence about them."""
    group = _grouping(graph)
    if group is None:
        return {
            "nodes": []
        }, f"{len(graph)} nodes are more than a page draws, and no modules are known to fold them by."
    nodes: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    made_by: dict[ir.Value, int] = {}

    def add(key: str, operator: str, category: str, about: str, rows: Iterable[tuple[str, str]] = ()) -> int:
        places[key] = len(nodes)
        shown = [tuple(map(visible, row)) for row in rows]
        nodes.append({"operator": visible(operator), "category": category, "about": about, "rows": shown})
        return places[key]

    for value in graph.inputs:
        made_by[value] = add(f"input {value.name}", str(value.name), "data", "input", [("input", _type_text(value))])
    for number, node in enumerate(graph):
        key = group(number, node)
        if key not in places:
            folded = key != f"node {number}"
            rows = [] if folded else [*_weights(node), *_attributes(node)]
            category = "function" if folded else categories.get(node.op_type, "none")
            add(key, key if folded else node.op_type, category, "" if folded else _about(node), rows)
        made_by |= dict.fromkeys(node.outputs, places[key])
    edges = {}
    for number, node in enumerate(graph):
        to = places[group(number, node)]
        for used in node.inputs:
            if used is not None and (start := made_by.get(used)) is not None and start != to:
                edges[start, to] = _dims_text(used)
    for value in graph.outputs:
        if value in made_by:
            end = add(f"output {value.name}", str(value.name), "data", "output", [("output", _type_text(value))])
            edges[made_by[value], end] = ""
    inner = sum(1 for _ in graph.all_nodes()) - len(graph)
    about = f"{len(graph):,} nodes{f', and {inner:,} in their bodies' if inner else ''}."
    folded = "" if len(graph) <= MAX_NODES else f" Folded by module to {len(nodes):,}."
    return {"nodes": nodes, "edges": [[*ends, label] for ends, label in edges.items()]}, about + folded


def _grouping(graph: ir.Graph) -> Any:
    """Return the box of each node: the node itself, or its module at the greatest depth with few enough boxes."""
    if len(graph) <= MAX_NODES:
        return lambda number, node: f"node {number}"
    paths = [_module(node).split(".") for node in graph]

    def names_at(depth: int) -> list[str]:
        return [".".join(path[:depth]) for path in paths]

    def is_too_deep(depth: int) -> bool:  # the deeper, the more modules there are
        names = names_at(depth)
        return len(set(names)) + names.count("") > MAX_NODES

    depth = bisect_left(range(1, max(map(len, paths)) + 1), True, key=is_too_deep)
    names = names_at(depth)
    return (lambda number, node: names[number] or f"node {number}") if depth else None


def _module(node: ir.Node) -> str:
    """Return where a node came from: the source's module, or the path that exporters write into its name."""
    found = node.metadata_props.get(MODULE_KEY, "")
    return found or str(node.name or "").strip("/").rpartition("/")[0].replace("/", ".")


def _about(node: ir.Node) -> str:
    where = (node.metadata_props.get(MODULE_KEY), node.metadata_props.get(SOURCE_KEY))
    return "\n".join(visible(str(text)) for text in (node.name, *where) if text)


def _weights(node: ir.Node) -> Iterable[tuple[str, str]]:
    for value in node.inputs:
        if value is not None and value.const_value is not None and value.is_initializer():
            yield _short(str(value.name).rpartition(".")[2]), _type_text(value)


def _attributes(node: ir.Node) -> Iterable[tuple[str, str]]:
    plain = (ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT, ir.AttributeType.STRING)
    for attribute in [a for a in node.attributes.values() if a.type in plain][:_MOST_ATTRIBUTES]:
        yield attribute.name, _short(str(attribute.value))


def _type_text(value: ir.Value) -> str:
    return f"{dtype_name(value.dtype)}⟨{_dims_text(value)}⟩" if value.shape is not None else dtype_name(value.dtype)


def _dims_text(value: ir.Value) -> str:
    dims = known_dims(value)
    return "" if dims is None else "×".join("?" if d is None else _short(visible(str(d))) for d in dims)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
