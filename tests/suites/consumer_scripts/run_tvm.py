"""Run an ONNX file in TVM (Relax), compiled for the processor."""

import onnx
import tvm
from arrays import answer, feeds
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

path, inputs = feeds()
module = from_onnx(onnx.load(path), {name: list(array.shape) for name, array in inputs.items()})
module = relax.get_pipeline("zero")(relax.transform.DecomposeOpsForInference()(module))
machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
made = machine["main"](*[tvm.runtime.tensor(array) for array in inputs.values()])
answer([output.numpy() for output in (made if isinstance(made, (list, tuple, tvm.ir.Array)) else [made])])
