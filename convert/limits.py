"""Every limit on what a broken or hostile file may make its reader do, in one place; `table()` lists them.

Each limit is far above the needs of any model, and keeps a file of a few kilobytes from costing hours or all memory.
Limits are read as `limits.X` when needed, so that tests, and programs that trust their files, can set them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from itertools import pairwise
from typing import NamedTuple

COMMAND_SECONDS = 3600.0
"""seconds: for one command without --timeout; the largest model of the zoo takes minutes"""

CHILD_DISK_PERCENT = 95
"""percent: of the free space for temporary files that a process which runs a model may use"""

ARCHIVE_ENTRIES = 200_000
"""entries: in a zip archive, whose whole directory is read before any entry"""

ARCHIVE_EXPANSION = 200
"""times: the growth of an entry or archive; weights deflate by 1 to 3, text by 10, only a bomb (or zeros) by 200"""

ARCHIVE_FREE_BYTES = 100 << 20
"""bytes: that an archive may expand to at any ratio"""

ARCHIVE_FORMAT_BYTES = 1000
"""bytes: of the entry `archive_format` in a .pt2 file, which contains one word"""

WEIGHTS_EXPANSION = 100
"""times: weights relative to the model's files; from 4 bits to 32 they grow by 8, shared ones by more"""

WEIGHTS_FREE_BYTES = 128 << 20
"""bytes: of weights that a model may have at any ratio, such as masks with one value"""

FOLDER_ENTRIES = 100_000
"""entries: of a folder that are examined to identify it"""

FOLDER_DEPTH = 100
"""levels: of nested folders in a model's folder"""

JSON_VALUES = 16_000_000
"""values: in a JSON text, each at least a hundred bytes in memory; a program of 100,000 nodes has 10 million"""

FOLDER_CONFIG_BYTES = 10 << 20
"""bytes: of config.json in a Hugging Face folder, and of each other configuration file"""

FOLDER_INDEX_BYTES = 100 << 20
"""bytes: of an index of weights in a Hugging Face folder; the largest have 10 MB"""

FOLDER_CONFIG_COUNT = 1_000_000
"""layers: in a Hugging Face configuration, or labels, experts and the like, for which lists are built"""

FOLDER_MODEL_PARTS = 300_000
"""parts: layers and weights of a Hugging Face model; 61 layers of 256 experts have 125,000"""

FOLDER_SPARE_ELEMENTS = 1 << 27
"""elements: of a Hugging Face model beyond 4 per byte of its weights (16 if quantized), such as masks of old models"""

MANIFEST_BYTES = 64 << 20
"""bytes: of a manifest of `convert batch`; 100,000 models need about 10 MB"""

OPERATOR_LIST_BYTES = 1 << 20
"""bytes: of a list of operators for `convert ops --of`; all of TensorFlow's have 30 kB"""

BATCH_FOLDERS = 100_000
"""folders: that `convert batch` visits below a named one; links may lead to each under many names"""

BATCH_LINKED_ENTRIES = 20_000
"""entries: behind a link out of a folder of `convert batch`; a link to / has millions"""

MANIFEST_KEY_PARTS = 100
"""parts: of a dotted key in a manifest (a.b.c), which its parser traverses once more for each part"""

COMPANION_BYTES = 256 << 20
"""bytes: of tokenizer and configuration files copied beside a model; the largest tokenizers have 40 MB"""

SAFETENSORS_HEADER_BYTES = 100 << 20
"""bytes: of the JSON header of a .safetensors file; the format allows 100 MB"""

PICKLE_BYTES = 256 << 20
"""bytes: of a pickle that is examined; weights are outside of it"""

PICKLE_OPCODES = 4_000_000
"""opcodes: of a pickle that are followed; a Transformer of 6 + 6 layers has 21,738"""

PICKLE_KEY_DEPTH = 500
"""levels: of nested tuples in a key of a pickle, into which Python recurses without checking its stack"""

PROTOBUF_FIELDS = 2_000_000
"""fields: of the outermost message that are read to identify it; a GraphDef has one per node"""

ONNX_NODES = 1_000_000
"""nodes: that the functions of an ONNX model expand to; each may call the next twice"""

ONNX_FUNCTION_DEPTH = 100
"""calls: nested, of functions in an ONNX model"""

NODE_OUTPUTS = 32_768
"""outputs: of one operator, such as Split; each takes some kilobytes and repeatedly a fraction of a millisecond"""

OPERATOR_NODES = 100_000
"""nodes: that one operator is written as; rules create some for each element of a window or each step of a loop"""

TENSOR_DIMS = 256
"""dims: of a tensor, and entries in lists of sizes, axes or steps; numpy and PyTorch support 64"""

LRN_CHANNELS = 4096
"""channels: in the window of an LRN, which are summed one by one; AlexNet has 5"""

WINDOW_PLACES = 4_096
"""elements: of a window combined one by one: by a function without an ONNX operator, or for the places of maxima"""

COMPUTED_SIZES = 512
"""numbers: in a tensor computed at run time, each of which PyTorch's capture turns into a size; tensors have 64 dims"""

SHAPE_DATA_ELEMENTS = 1 << 22
"""elements: of all vectors in a graph, up to which ONNX's inference propagates the contents of shapes"""

ONNX_SPARSE_BYTES = 1 << 31
"""bytes: of a sparse initializer, after it is made dense"""

TENSORFLOW_NODES = 2_000_000
"""nodes: that the functions of a TensorFlow graph expand to; each may call the next twice"""

TENSORFLOW_CALL_DEPTH = 100
"""calls: nested, of functions in a TensorFlow graph"""

TENSORFLOW_TABLE_ELEMENTS = 100_000_000
"""elements: of a Range that fills a lookup table; three numbers in the file determine its length"""

TENSORFLOW_TABLE_LINES = 5_000_000
"""lines: of a file that fills a lookup table, some hundred bytes each; the largest vocabulary has 500,000"""

KERAS_CONFIG_BYTES = 256 << 20
"""bytes: of config.json in a .keras file"""

KERAS_SPARE_ELEMENTS = 1 << 27
"""elements: of a Keras model's variables beyond 16 per byte of its file; its layers initialize them first"""

HDF5_SECONDS = 15.0
"""seconds: of CPU time for the HDF5 library to walk a file, beyond what its size allows; some files never end"""

HDF5_BYTES_PER_SECOND = 10_000_000
"""bytes: of an HDF5 file for each further second"""

TFLITE_ENTRIES = 2_000_000
"""entries: of all tables in a TensorFlow Lite file; many may lie on the same bytes"""

TFLITE_OPERATORS = 2_000_000
"""operators: that the subgraphs of a TensorFlow Lite model expand to; each may call the next twice"""

TFLITE_CALL_DEPTH = 100
"""calls: nested, of subgraphs in a TensorFlow Lite model"""

TFLITE_SPARSE_ELEMENTS = 1 << 29
"""elements: of a sparse weight of TensorFlow Lite, after it is made dense"""

STABLEHLO_BYTES = 2 << 30
"""bytes: of a file with a StableHLO module; a portable artefact cannot be larger"""

STABLEHLO_SECONDS = 30
"""seconds: of CPU time for MLIR to parse a module, beyond what its size allows"""

STABLEHLO_BYTES_PER_SECOND = 5_000_000
"""bytes: of a StableHLO module for each further second"""

STABLEHLO_OPERATORS = 2_000_000
"""operators: that the functions of a StableHLO module expand to; each may call the next twice"""

STABLEHLO_CALL_DEPTH = 100
"""calls: nested, of functions in a StableHLO module"""

STABLEHLO_ATTRIBUTE_VALUES = 1_000_000
"""values: in an attribute of a StableHLO operator; a list may hold the next one twice"""

STABLEHLO_ATTRIBUTE_DEPTH = 100
"""levels: of lists in an attribute of a StableHLO operator"""

STABLEHLO_SIZE_CHARACTERS = 10_000
"""characters: of a size expression that names a dim in a program of jax.export"""

STABLEHLO_SIZE_TERMS = 10_000
"""terms: of an expanded size expression in a StableHLO module"""

TORCHSCRIPT_CODE_BYTES = 16 << 20
"""bytes: of all code in a TorchScript archive; a call of a Linear takes about 100"""

TORCHSCRIPT_DEBUG_BYTES = 64 << 20
"""bytes: of all debug information in a TorchScript archive; PyTorch writes 2.6 per byte of code"""

TORCHSCRIPT_SETSTATE_BYTES = 4 << 20
"""bytes: of the code files in a TorchScript archive with a `__setstate__` or what it calls"""

TORCHSCRIPT_INPUTS_BYTES = 1 << 20
"""bytes: of the pickle with the shapes that a TorchScript module was traced with"""

TORCHSCRIPT_CALL_DEPTH = 200
"""calls: nested, of functions in a TorchScript module"""

TORCHSCRIPT_LIST_ITEMS = 1_000_000
"""items: of a list, or characters of a text, that a TorchScript module builds while it is read"""

TORCHSCRIPT_RUN_BYTES = 3 << 29
"""bytes: of memory to run a TorchScript module on an example, beyond 16 times its weights and 128 times its inputs"""

TORCHSCRIPT_RUN_SECONDS = 600.0
"""seconds: for the loops of a TorchScript module on an example, in a program; commands have --timeout"""

EXPORTED_JSON_BYTES = 1 << 30
"""bytes: of one JSON entry of an exported program"""

EXPORTED_ARCHIVE_BYTES = 1 << 34
"""bytes: of one archive of tensors in an exported program"""

EXPORTED_EXPRESSION_CHARACTERS = 10_000
"""characters: of a size expression in an exported program, which PyTorch passes to Python's parser"""

EXPORTED_EXPRESSION_BITS = 4096
"""bits: of a number that a size expression computes; a power of powers can have any size"""

EXPORTED_EXPRESSION_TERMS = 10_000
"""terms: of an expanded size expression"""

CAFFE2_NET_DEPTH = 50
"""nets: nested, as arguments of operators"""

CAFFE2_FILL_ELEMENTS = 2**31
"""elements: of all weights that Caffe2 fills create; one number in the file sets the length of each"""

CAFFE2_LOOP_TURNS = 1_000_000
"""iterations: of a While in a Caffe2 net that the project's executor runs"""


class Limit(NamedTuple):
    """One row of the table: `value` is a number of `unit`; `what` says what it bounds, and why."""

    name: str
    value: float
    unit: str
    what: str


def table() -> list[Limit]:
    """Return all limits, in the order of this file."""
    module = sys.modules[__name__]
    body = ast.parse(inspect.getsource(module)).body
    rows = []
    for node, text in pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            (target,) = node.targets
            name, meaning = ast.unparse(target), str(text.value.value)
            unit, _, what = meaning.partition(": ")
            rows.append(Limit(name, getattr(module, name), unit, what))
    return rows
