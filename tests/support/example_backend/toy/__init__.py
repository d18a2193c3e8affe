"""A backend that writes a model as JSON: its weights, and a function of numpy for each operator."""

from convert.plugin import Format, Kind, Option
from convert.rules.listing import lazy_attributes, operator_rows

FORMATS = {"toy": Format("toy", ".toy", folder=False, summary="functions of numpy as JSON (--indent)", kind="toy")}
INDENT = Option("indent", 0, "Spaces that a level of JSON is indented by (toy).", low=0, high=8)
OPTIONS = (INDENT,)
SNIFF = (Kind("toy", (".toy",), lambda path, head: head.startswith(b"{") and b'"toy": 1' in head[:40]),)
__getattr__ = lazy_attributes(__name__, {"onnx_op": ".emit"})


def check(model, format, options):
    from .emit import emit

    emit(model.clone(), options)


def write(model, path, format, options, report):
    import json

    from .emit import emit

    path.write_text(json.dumps(emit(model, options), indent=INDENT.of(options) or None))


def operators(format):
    from .emit import onnx_op

    return operator_rows(onnx_op)
