"""Run an ONNX file in CNTK."""

import cntk
from arrays import answer, feeds

path, inputs = feeds()
function = cntk.Function.load(path, format=cntk.ModelFormat.ONNX, device=cntk.cpu())
given = {variable: inputs[variable.name] for variable in function.arguments}
found = function.eval(given)
answer([found[o] for o in function.outputs] if isinstance(found, dict) else [found])
