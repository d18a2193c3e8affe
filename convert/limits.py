"""Every limit on what a broken or hostile file may make its reader do, in one place: `table()` lists them.

Each is far above any model, and keeps a file of a few kilobytes from costing hours or all memory. They are read as
`limits.X` when they are needed, so that a test, or a program that trusts its files, can set them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from itertools import pairwise

COMMAND_SECONDS = 3600.0
"""seconds: that one command may take where --timeout does not say; the largest model of the zoo takes minutes"""

CHILD_DISK_PERCENT = 95
"""percent: of what is free on the disk of temporary files, for what a process that runs a model leaves there"""

ARCHIVE_ENTRIES = 200_000
"""entries: of a zip archive; its directory is read as a whole before any entry is"""

ARCHIVE_EXPANSION = 200
"""times: that an entry or an archive grows; weights deflate by 1 to 3, text by 10, only a bomb (or zeros) by 200"""

ARCHIVE_FREE_BYTES = 100 << 20
"""bytes: that an archive may expand to at any ratio"""

ARCHIVE_FORMAT_BYTES = 1000
"""bytes: of the entry `archive_format` in a .pt2 file, which holds one word"""

WEIGHTS_EXPANSION = 100
"""times: that a model's weights are larger than its files; from 4 bits to 32 they grow by 8, shared ones by more"""

WEIGHTS_FREE_BYTES = 128 << 20
"""bytes: of weights that a model may have at any ratio, such as masks of one value"""

FOLDER_ENTRIES = 100_000
"""entries: of a folder that are looked at to tell what it is"""

FOLDER_DEPTH = 100
"""floors: of folders in a model's folder"""

JSON_VALUES = 16_000_000
"""values: of a JSON text, of which each takes a hundred bytes and more; a program of 100,000 nodes has 10 million"""

FOLDER_CONFIG_BYTES = 10 << 20
"""bytes: of config.json in a Hugging Face folder, and of each other configuration beside it"""

FOLDER_INDEX_BYTES = 100 << 20
"""bytes: of an index that says which file of a Hugging Face folder holds which weight; the largest have 10 MB"""

FOLDER_CONFIG_COUNT = 1_000_000
"""layers: or labels, experts and the like, of a Hugging Face model by its configuration; lists are made of them"""

FOLDER_MODEL_PARTS = 300_000
"""parts: layers and weights of a Hugging Face model that is built; 61 layers of 256 experts have 125,000"""

FOLDER_SPARE_ELEMENTS = 1 << 27
"""elements: of a Hugging Face model besides 4 for each byte of its weights, 16 where it is quantized; masks of old"""

MANIFEST_BYTES = 64 << 20
"""bytes: of a manifest of `convert batch`; 100,000 models have some 10 MB"""

OPERATOR_LIST_BYTES = 1 << 20
"""bytes: of a list of operators for `convert ops --of`; all of TensorFlow's have 30 kB"""

BATCH_FOLDERS = 100_000
"""folders: that `convert batch` goes through below one that is named; links may lead to each by many names"""

BATCH_LINKED_ENTRIES = 20_000
"""entries: behind a link out of a folder of `convert batch`; a link to / has millions, each of which is looked at"""

MANIFEST_KEY_PARTS = 100
"""parts: of a key of a manifest, a.b.c; its reader goes over them once more for each"""

COMPANION_BYTES = 256 << 20
"""bytes: of tokenizer and configuration together that are copied beside a model; the largest tokenizers have 40 MB"""

SAFETENSORS_HEADER_BYTES = 100 << 20
"""bytes: of the JSON at the beginning of a .safetensors file; the format allows 100 MB"""

PICKLE_BYTES = 256 << 20
"""bytes: of a pickle that is looked at; weights are not inside it"""

PICKLE_OPCODES = 4_000_000
"""opcodes: of a pickle that are followed; a Transformer of 6 + 6 layers takes 21,738"""

PICKLE_KEY_DEPTH = 500
"""levels: of tuples inside of one another in a key of a pickle, which Python goes down without looking at its stack"""

PROTOBUF_FIELDS = 2_000_000
"""fields: of the outermost message that are walked to tell what it is; a GraphDef has one for each node"""

ONNX_NODES = 1_000_000
"""nodes: that the functions of an ONNX model expand to; each may call the next twice"""

ONNX_FUNCTION_DEPTH = 100
"""calls: of functions inside of one another in an ONNX model"""

NODE_OUTPUTS = 32_768
"""outputs: of one operator, such as Split; each takes some kilobytes and a fraction of a millisecond several times"""

TENSOR_DIMS = 256
"""dims: of a tensor, and sizes, axes or steps that an operator is given for them; numpy and PyTorch know 64"""

LRN_CHANNELS = 4096
"""channels: that an LRN sums for each of its own, which is done one by one; AlexNet's have 5"""

COMPUTED_SIZES = 512
"""numbers: of a tensor that a run computes, each of which PyTorch's capture makes a size of; tensors have 64 dims"""

SHAPE_DATA_ELEMENTS = 1 << 22
"""elements: of all vectors of a graph together, up to which ONNX's inference follows what shapes hold"""

ONNX_SPARSE_BYTES = 1 << 31
"""bytes: of a sparse initializer, which is written out in full"""

TENSORFLOW_NODES = 2_000_000
"""nodes: that the functions of a TensorFlow graph expand to; each may call the next twice"""

TENSORFLOW_CALL_DEPTH = 100
"""calls: of functions inside of one another in a TensorFlow graph"""

TENSORFLOW_TABLE_ELEMENTS = 100_000_000
"""elements: of a Range that fills a lookup table; three numbers in the file tell its length"""

TENSORFLOW_TABLE_LINES = 5_000_000
"""lines: of a file that fills a lookup table; each takes some hundred bytes, and the largest vocabulary has 500,000"""

KERAS_CONFIG_BYTES = 256 << 20
"""bytes: of config.json in a .keras file"""

KERAS_SPARE_ELEMENTS = 1 << 27
"""elements: of the variables of a Keras model besides 16 for each byte of its file; its layers draw them first"""

HDF5_SECONDS = 15.0
"""seconds: of a processor for the HDF5 library to go over a file, besides what its size allows; some keep it forever"""

HDF5_BYTES_PER_SECOND = 10_000_000
"""bytes: of an HDF5 file for each further second"""

TFLITE_ENTRIES = 2_000_000
"""entries: of all tables of a TensorFlow Lite file together; many may lie on the same bytes"""

TFLITE_OPERATORS = 2_000_000
"""operators: that the subgraphs of a TensorFlow Lite model expand to; each may call the next twice"""

TFLITE_CALL_DEPTH = 100
"""calls: of subgraphs inside of one another in a TensorFlow Lite model"""

TFLITE_SPARSE_ELEMENTS = 1 << 29
"""elements: of a sparse weight of TensorFlow Lite, which is written out in full"""

TORCHSCRIPT_CODE_BYTES = 16 << 20
"""bytes: of all code in a TorchScript archive; a Linear that is called takes some 100"""

TORCHSCRIPT_DEBUG_BYTES = 64 << 20
"""bytes: of all debug information in a TorchScript archive; PyTorch writes 2.6 for each of code"""

TORCHSCRIPT_SETSTATE_BYTES = 4 << 20
"""bytes: of the files of code in a TorchScript archive that have a `__setstate__` or what it calls"""

TORCHSCRIPT_INPUTS_BYTES = 1 << 20
"""bytes: of the pickle that notes the shapes a TorchScript module was traced with"""

TORCHSCRIPT_CALL_DEPTH = 200
"""calls: of functions inside of one another in a TorchScript module"""

TORCHSCRIPT_LIST_ITEMS = 1_000_000
"""items: of a list, or characters of a text, that a TorchScript module makes while it is read"""

TORCHSCRIPT_RUN_BYTES = 3 << 29
"""bytes: of memory to run a TorchScript module on an example, besides 16 times its weights, 128 times its inputs"""

TORCHSCRIPT_RUN_SECONDS = 600.0
"""seconds: that the loops of a TorchScript module may take on an example, in a program; commands have --timeout"""

EXPORTED_JSON_BYTES = 1 << 30
"""bytes: of one JSON entry of an exported program"""

EXPORTED_ARCHIVE_BYTES = 1 << 34
"""bytes: of one archive of tensors inside of an exported program"""

EXPORTED_EXPRESSION_CHARACTERS = 10_000
"""characters: of an expression of sizes in an exported program, which PyTorch hands to Python's parser"""

EXPORTED_EXPRESSION_BITS = 4096
"""bits: of a number that an expression of sizes computes; a power of powers has any number"""

EXPORTED_EXPRESSION_TERMS = 10_000
"""terms: of an expression of sizes, multiplied out"""

CAFFE2_NET_DEPTH = 50
"""nets: inside of one another, as arguments of operators"""

CAFFE2_FILL_ELEMENTS = 2**31
"""elements: of all weights that Caffe2 fills make; one number in the file tells the length of each"""

CAFFE2_LOOP_TURNS = 1_000_000
"""turns: of a While in a Caffe2 net that the project's executor runs"""


@dataclass(frozen=True)
class Limit:
    """One row of the table: `value` is the number of `unit`, `what` it is that it bounds, and why."""

    name: str
    value: float
    unit: str
    what: str


def table() -> list[Limit]:
    """All limits, in the order of this file."""
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
