"""Writes the beginning of a rule: a Python file with the names of the operator's schema, which runs as it is."""

from __future__ import annotations

import keyword
import re

from convert.errors import UsageError
from convert.outcome.text import visible
from convert.rules.table import REQUIRED, Argument, Rules, Schema

_FILE = '''\
# {file}: convert MODEL --to FORMAT --rules {file}
{imports}


@{decorator}("{operator}")
def {name}({signature}):
    """{schema_text}"""
    raise Unsupported(f"the rule for {operator} is to be written: {shown}")
'''


def skeleton(table: Rules, operator: str, schema: Schema | None, schema_text: str, module: str, decorator: str) -> str:
    """Return the text of a file with a rule for `operator` that names every argument and raises `Unsupported`.

    `schema` is None if it is unknown: the rule then gets the inputs as `*inputs`. `schema_text` is the schema as its
    framework writes it. Raises `UsageError` if the table has a rule already, or for an illegal operator name.
    """
    if operator in table:
        raise UsageError(f"{operator} has a {table.title} rule already", hint="rules are for what has none")
    if visible(operator) != operator or set(operator) & set('"\\{}'):
        raise UsageError(f"{operator!r} is no name of an operator", hint="it would be written into a file of Python")
    first = {"torch_op": "g", "tf_op": "g"}.get(decorator, "t")
    parts, names = [first], []
    if schema is None:
        parts, names = [first, "*inputs"], ["inputs"]
        schema_text = schema_text or "Its schema is not known: name its attributes behind *inputs."
    else:
        for i, arguments in enumerate((schema.positional, schema.keyword)):
            shown = [a for a in arguments if a.name not in schema.implied]
            parts += ["*"] if i and shown else []
            parts += [_parameter(a) for a in shown]
            names += [_name(a.name) for a in shown]
    return _FILE.format(
        file="my_rules.py",
        imports="\n".join(sorted(("from convert.errors import Unsupported", f"from {module} import {decorator}"))),
        decorator=decorator,
        operator=operator,
        name=_name(_snake_case(operator.rpartition("::")[2])),
        signature=", ".join(parts),
        schema_text=schema_text.replace("\\", "").replace('"', "'"),
        shown=", ".join(f"{name}={{{name}!r}}" for name in names),
    )


def _parameter(argument: Argument) -> str:
    simple = isinstance(argument.default, (bool, int, float, str, type(None)))
    if argument.default is REQUIRED:
        return _name(argument.name)
    return f"{_name(argument.name)}={argument.default!r}" if simple else f"{_name(argument.name)}=None"


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W", "_", name).lower()


def _name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name
