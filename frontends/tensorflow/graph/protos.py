"""TensorFlow's messages, as far as a reader needs them, and a parser that leaves large tensors in the file.

The field numbers are TensorFlow's (graph.proto, function.proto, saved_model.proto, tensor_bundle.proto). The messages
are in their own descriptor pool, so that reading a SavedModel or a frozen graph needs neither an installed TensorFlow
nor its import time.
"""

from __future__ import annotations

import mmap
import secrets
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from convert.errors import BadInput
from convert.files.holes import check_holes
from convert.files.protobuf_wire import encode_varint

# `field number type`, `*` for repeated, `{Type}` for a map from string. Fields that a reader never uses are left out
# and skipped as unknown fields.
_FAR_OFFSET = (1 << 27) + secrets.randbelow(1 << 28)
_FAR_SIZE = _FAR_OFFSET + 1
"""Fields of a tensor that was left in the file; no file can contain these numbers."""
_MESSAGES = f"""
SavedModel      saved_model_schema_version 1 int64, meta_graphs 2 *MetaGraphDef
MetaGraphDef    meta_info_def 1 MetaInfoDef, graph_def 2 GraphDef, saver_def 3 SaverDef, \
collection_def 4 {{CollectionDef}}, signature_def 5 {{SignatureDef}}, asset_file_def 6 *AssetFileDef, \
object_graph_def 7 SavedObjectGraph
MetaInfoDef     tags 4 *string, tensorflow_version 5 string
GraphDef        node 1 *NodeDef, library 2 FunctionDefLibrary, versions 4 VersionDef
VersionDef      producer 1 int32
NodeDef         name 1 string, op 2 string, input 3 *string, attr 5 {{AttrValue}}
CollectionDef   node_list 1 NodeList
NodeList        value 1 *string
AssetFileDef    tensor_info 1 TensorInfo, filename 2 string
SavedObjectGraph nodes 1 *SavedObject, concrete_functions 2 {{SavedConcreteFunction}}
SavedObject     children 1 *ObjectReference, user_object 4 SavedUserObject, asset 5 Nothing, \
function 6 SavedFunction, variable 7 Nothing, bare_concrete_function 8 SavedBareConcreteFunction, constant 9 Nothing, \
resource 10 Nothing, saveable_objects 11 {{SaveableObject}}, captured_tensor 12 Nothing
SavedUserObject identifier 1 string, version 2 VersionDef
SavedFunction   concrete_functions 1 *string
SavedBareConcreteFunction concrete_function_name 1 string
SaveableObject  save_function 2 int32, restore_function 3 int32
ObjectReference node_id 1 int32, local_name 2 string
TrackableObjectGraph nodes 1 *TrackableObject
TrackableObject children 1 *ObjectReference, attributes 2 *SerializedTensor
SerializedTensor name 1 string, full_name 2 string, checkpoint_key 3 string
SavedConcreteFunction bound_inputs 2 *int32
Nothing         unused 1000 bool
FunctionDefLibrary function 1 *FunctionDef, gradient 2 *GradientDef
GradientDef     function_name 1 string, gradient_func 2 string
FunctionDef     signature 1 OpDef, attr 5 {{AttrValue}}, arg_attr 7 [ArgAttrs], node_def 3 *NodeDef, ret 4 {{string}}, \
control_ret 6 {{string}}
ArgAttrs        attr 1 {{AttrValue}}
OpDef           name 1 string, input_arg 2 *ArgDef, output_arg 3 *ArgDef
ArgDef          name 1 string, type 3 DataType, type_attr 4 string, number_attr 5 string, type_list_attr 6 string
AttrValue       list 1 ListValue, s 2 bytes, i 3 int64, f 4 float, b 5 bool, type 6 DataType, \
shape 7 TensorShapeProto, tensor 8 TensorProto, placeholder 9 string, func 10 NameAttrList
ListValue       s 2 *bytes, i 3 *int64, f 4 *float, b 5 *bool, type 6 *DataType, shape 7 *TensorShapeProto, \
tensor 8 *TensorProto, func 9 *NameAttrList
NameAttrList    name 1 string, attr 2 {{AttrValue}}
TensorProto     dtype 1 DataType, tensor_shape 2 TensorShapeProto, tensor_content 4 bytes, float_val 5 *float, \
double_val 6 *double, int_val 7 *int32, string_val 8 *bytes, scomplex_val 9 *float, int64_val 10 *int64, \
bool_val 11 *bool, dcomplex_val 12 *double, half_val 13 *int32, uint32_val 16 *uint32, uint64_val 17 *uint64, \
far_offset {_FAR_OFFSET} uint64, far_size {_FAR_SIZE} uint64
TensorShapeProto dim 2 *Dim, unknown_rank 3 bool
Dim             size 1 int64, name 2 string
SignatureDef    inputs 1 {{TensorInfo}}, outputs 2 {{TensorInfo}}, method_name 3 string
TensorInfo      name 1 string, dtype 2 DataType, tensor_shape 3 TensorShapeProto, coo_sparse 4 bytes, \
composite_tensor 5 bytes
SaverDef        filename_tensor_name 1 string, save_tensor_name 2 string, restore_op_name 3 string
BundleHeaderProto num_shards 1 int32, endianness 2 int32
BundleEntryProto dtype 1 DataType, shape 2 TensorShapeProto, shard_id 3 int32, offset 4 int64, size 5 int64, \
crc32c 6 fixed32, slices 7 *bytes
"""
_ONE_OF = {"AttrValue": "value", "SavedObject": "kind"}
_DTYPES = (  # noqa: SIM905 (types.proto, whose names messages in text have; each has a reference, 100 further on)
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16 QINT16 "
    "QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E4M3FNUZ "
    "FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ INT4 UINT4 INT2 UINT2 FLOAT4_E2M1FN"
).split()

# Where tensors can be: message → field number → message, down to TensorProto's content.
_PATHS: dict[str, dict[int, str]] = {
    "SavedModel": {2: "MetaGraphDef"},
    "MetaGraphDef": {2: "GraphDef"},
    "GraphDef": {1: "NodeDef", 2: "FunctionDefLibrary"},
    "FunctionDefLibrary": {1: "FunctionDef"},
    "FunctionDef": {3: "NodeDef"},
    "NodeDef": {5: "AttrEntry"},
    "AttrEntry": {2: "AttrValue"},
    "AttrValue": {8: "TensorProto"},
    "TensorProto": {},
}
_LARGE = 2048
_SCALARS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "fixed32": 7,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}


def open_buffer(path: Path) -> memoryview:
    """Return the bytes of a file, memory-mapped. Raises `BadInput` if it is empty, sparse, or cannot be opened."""
    try:
        check_holes(path)
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {error}", hint="is the download complete?") from error


def parse_message(buffer: memoryview, message: str, label: str) -> Any:
    """Return the message in `buffer`; the content of large tensors stays in place (see `far_offset`, `far_size`).

    `label` is the file's name in errors. Raises `BadInput` if the bytes are not such a message.
    """
    try:
        return MESSAGES[message].FromString(_strip_large_tensors(buffer, 0, len(buffer), message))
    except (DecodeError, IndexError, ValueError) as error:
        raise BadInput(f"{label} is not a valid {message}: {error}", hint="is the file complete?") from error


def _strip_large_tensors(buffer: memoryview, start: int, end: int, message: str) -> bytes:
    """Return the encoding of buffer[start:end] with each large tensor_content replaced by its position in the
    buffer.
    """
    if end - start < _LARGE:
        return bytes(buffer[start:end])
    inner = _PATHS[message]
    parts: list[bytes] = []
    at = kept = start
    while at < end:
        tag, body = _varint(buffer, at, end)
        number, wire = tag >> 3, tag & 7
        if wire == 2:
            size, body = _varint(buffer, body, end)
            stop = body + size
            far = message == "TensorProto" and number == 4
            if stop > end:
                raise ValueError("a field runs past the end")
            if size >= _LARGE and (far or number in inner):
                parts.append(bytes(buffer[kept:at]))
                if far:
                    parts.append(
                        encode_varint(_FAR_OFFSET << 3)
                        + encode_varint(body)
                        + encode_varint(_FAR_SIZE << 3)
                        + encode_varint(size)
                    )
                else:
                    light = _strip_large_tensors(buffer, body, stop, inner[number])
                    parts.append(encode_varint(tag) + encode_varint(len(light)) + light)
                kept = stop
            at = stop
        else:
            at = _skip_field(buffer, body, end, wire)
    parts.append(bytes(buffer[kept:end]))
    return b"".join(parts)


def _skip_field(buffer: memoryview, at: int, end: int, wire: int) -> int:
    if wire == 0:
        at = _varint(buffer, at, end)[1]
    elif wire in (1, 5):
        at += 8 if wire == 1 else 4
    else:
        raise ValueError(f"wire type {wire}")
    if at > end:
        raise ValueError("a field runs past the end")
    return at


def _varint(buffer: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number runs past the end")


def _build_messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="convert/tensorflow.proto", package="convert_tf", syntax="proto3")
    dtypes = file.enum_type.add(name="DataType")
    for number, name in enumerate(_DTYPES):
        dtypes.value.add(name=f"DT_{name}", number=number)
    for number, name in enumerate(_DTYPES[1:], 101):
        dtypes.value.add(name=f"DT_{name}_REF", number=number)
    lines = [line.split(None, 1) for line in _MESSAGES.strip().splitlines()]
    for name, fields in lines:
        message = file.message_type.add(name=name)
        if name in _ONE_OF:
            message.oneof_decl.add(name=_ONE_OF[name])
        for field in fields.split(", "):
            is_alternative = name in _ONE_OF and not any(mark in field for mark in "*{[")
            _add_field(message, *field.split(), one_of=is_alternative)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"convert_tf.{name}")) for name, _ in lines
    }


def _add_field(message: Any, name: str, number: str, kind: str, *, one_of: bool) -> None:
    field = message.field.add(name=name, number=int(number), label=3 if kind[0] in "*{[" else 1)
    bare = kind.strip("*{}[]")
    if kind[0] in "{[":
        key = "string" if kind[0] == "{" else "uint32"
        entry_name = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        _add_field(entry, "key", "1", key, one_of=False)
        _add_field(entry, "value", "2", bare, one_of=False)
        field.type, field.type_name = 11, f".convert_tf.{message.name}.{entry_name}"
    elif bare in _SCALARS:
        field.type = _SCALARS[bare]
    elif bare == "DataType":
        field.type, field.type_name = 14, ".convert_tf.DataType"
    else:
        field.type, field.type_name = 11, f".convert_tf.{bare}"
    if one_of:
        field.oneof_index = 0


MESSAGES = _build_messages()
"""Message classes by TensorFlow's names."""
