"""The rules, and the walk over the graph that calls them: `t.call(function, *inputs)` adds a step."""

from convert.errors import Unsupported
from convert.graph import location_of
from convert.passes import run_passes
from convert.passes.tidy.clean import clean
from convert.rules import Rules
from convert.rules.onnx_schemas import operator_of, plain_value, schema

onnx_op = Rules("toy", schema=schema)
onnx_op.same(lambda name: lambda t, x, y: t.call(name, x, y), Add="add", Mul="multiply", MatMul="matmul")
onnx_op.gap("numpy has no convolution", "Conv")
STEEP = onnx_op.limit("LeakyRelu", "it is steeper where it is negative")


@onnx_op("LeakyRelu")
def leaky_relu(t, x, *, alpha):
    if alpha > 1:
        raise Unsupported(STEEP)
    return t.call("maximum", x, t.call("multiply", x, alpha))


class Steps(list):
    def call(self, function, *inputs):
        self.append([function, inputs, f"step {len(self)}"])
        return self[-1][-1]


def emit(model, options):
    run_passes(model, (clean,), options)
    onnx_op.check((operator_of(node), location_of(node)) for node in model.graph.all_nodes())
    arrays = {name: value.const_value.numpy() for name, value in model.graph.initializers.items()}
    names, t = {value: value.name for value in (*model.graph.inputs, *model.graph.initializers.values())}, Steps()
    for node in model.graph:
        attributes = {a.name: plain_value(a.value) for a in node.attributes.values()}
        inputs = [names.get(value) for value in node.inputs]
        names[node.outputs[0]] = onnx_op.apply(t, operator_of(node), inputs, attributes, location_of(node))
    weights = {name: [str(array.dtype), array.tolist()] for name, array in arrays.items()}
    return {"toy": 1, "weights": weights, "steps": t, "outputs": {v.name: names[v] for v in model.graph.outputs}}
