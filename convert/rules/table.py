"""The operator table: registers rules, binds the arguments of source operators, and lists missing rules.

A rule is `rule(out, *inputs, **attributes)`: values are positional, attributes are keywords, named as in the source
operator's schema. `out` is the object under construction (a graph, a TensorFlow trace, a Caffe2 net).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from convert.errors import (
    DEFECT,
    BadInput,
    ConvertError,
    Location,
    Problem,
    ResourceLimit,
    Unsupported,
    is_lack_of_memory,
)
from convert.rules.dim_lists import check_lists
from convert.rules.rule_errors import clash, is_own, place_of_error, shown_call

REQUIRED: Any = inspect.Parameter.empty
Rule = Callable[..., Any]


@dataclass(frozen=True)
class Argument:
    """One argument of a source operator's schema; `default` is `REQUIRED` if the schema has none."""

    name: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class Schema:
    """The arguments that a source operator accepts.

    `implied` names attributes that follow from the inputs, such as TensorFlow's type and number attributes. A rule may
    leave them out, because nothing is ignored then; a rule that names one gets it.
    """

    positional: tuple[Argument, ...] = ()
    keyword: tuple[Argument, ...] = ()
    implied: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Entry:
    """A registered rule with its parsed signature."""

    rule: Rule

    @cached_property
    def positional(self) -> tuple[str, ...]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = list(inspect.signature(self.rule).parameters.values())[1:]
        return tuple(p.name for p in parameters if p.kind in kinds)

    @cached_property
    def keyword(self) -> frozenset[str]:
        parameters = inspect.signature(self.rule).parameters.values()
        return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    @cached_property
    def variadic(self) -> bool:
        parameters = inspect.signature(self.rule).parameters.values()
        return any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)


@dataclass
class Rules:
    """The table of one frontend or backend.

    - `schema(operator)` returns the source operator's `Schema`, or None if it is unknown (a custom operator: the node's
      inputs and attributes are then passed unchanged).
    - `gaps` are operators without a rule, and `limits` arguments that a rule does not support, both with the reason.
    - `runs_framework`: the rules call a framework on values. The framework may reject tensors without elements; such an
      error is then reported as `Unsupported`, not as a defect.

    Tables are filled at import time, and a conversion does not change them.

    >>> from convert.rules import Argument, Rules, Schema
    >>> toy_op = Rules("toy", schema=lambda operator: Schema((Argument("x"),), (Argument("alpha", 0.01),)))
    >>> @toy_op("LeakyRelu")
    ... def leaky_relu(out, x, *, alpha):
    ...     return f"{out}.leaky_relu({x}, {alpha})"
    >>> toy_op.apply("net", "LeakyRelu", ["a"])
    'net.leaky_relu(a, 0.01)'
    >>> toy_op.gap("toys have none", "Conv")
    >>> toy_op.check([("Conv", Location("Conv", "conv1"))])
    Traceback (most recent call last):
    convert.errors.Unsupported: Conv, node 'conv1': toys have none
    ...
    """

    title: str
    schema: Callable[[str], Schema | None] = lambda operator: None
    entries: dict[str, Entry] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    runs_framework: bool = False

    def __call__(self, *operators: str) -> Callable[[Rule], Rule]:
        """Return a decorator that registers a rule for one or more operators.

        Raises `UsageError` if an operator has a rule already and one of the two is the user's, else ValueError.
        """

        def register(rule: Rule) -> Rule:
            for operator in operators:
                self._add(operator, rule)
            return rule

        return register

    def same(self, make: Callable[[Any], Rule], /, **pairs: Any) -> None:
        """Register one-to-one operators as data: `same(make, Abs="abs")` registers `make("abs")` for Abs."""
        for operator, target in pairs.items():
            self._add(operator, make(target))

    def gap(self, reason: str, *operators: str) -> None:
        """Declare that `operators` cannot be expressed, and why; the reason becomes the text of the error."""
        for operator in operators:
            if operator not in self.entries:
                self.gaps[operator] = reason
            elif is_own(self.entries[operator].rule):  # a user's rule fills the gap, and may be registered first
                raise ValueError(f"{self.title}: {operator} has a rule and cannot be a gap")

    def limit(self, operator: str, reason: str) -> str:
        """Declare which arguments the rule of `operator` does not support, and why.

        Returns the text for the rule to raise.
        """
        if operator in self.limits:
            raise ValueError(f"{self.title}: {operator} has a limit already")
        self.limits[operator] = reason
        return reason

    def __contains__(self, operator: object) -> bool:
        return operator in self.entries

    def check(self, operators: Iterable[tuple[str, Location]]) -> None:
        """Raise one `Unsupported` that lists every operator without a rule. Call it before any work is done."""
        missing: dict[str, list[Location]] = {}
        for operator, at in operators:
            if operator not in self.entries:
                missing.setdefault(operator, []).append(at)
        if missing:
            problems = [Problem(self._why(operator), places[0], len(places)) for operator, places in missing.items()]
            raise Unsupported(
                problems=problems,
                hint="add a rule with --rules FILE, or replace the operator in the model; "
                f"`convert ops --skeleton {next(iter(missing))}` prints the beginning of one",
            )

    def apply(
        self,
        out: Any,
        operator: str,
        args: Sequence[Any] = (),
        attributes: Mapping[str, Any] | None = None,
        at: Location | None = None,
        *,
        schema: Schema | None = None,
    ) -> Any:
        """Call the rule for `operator`, with the defaults of its schema filled in, and return its result.

        Pass `schema` if the name alone does not determine it (an ATen overload); otherwise the table looks it up.

        - Raises `Unsupported` with the location if there is no rule, if the rule does not name an argument that is not
          at its default, or if the rule itself raises it.
        - Raises `ResourceLimit` for lists with more numbers than tensors have dims, and for a MemoryError.
        - Raises `BadInput` for a node without an input or attribute that the rule needs.
        - Any other exception becomes a `ConvertError` with the location.
        """
        at = at or Location(operator)
        positional, keyword = list(args), dict(attributes or {})
        try:
            if operator not in self.entries:
                raise Unsupported(self._why(operator))
            entry = self.entries[operator]
            schema = schema or self.schema(operator)
            positional, keyword = bind_arguments(entry, schema, args, attributes or {})
            names = entry.positional if schema is None else [a.name for a in schema.positional]
            check_lists([*zip(names, positional, strict=False), *keyword.items()], at)
            return entry.rule(out, *positional, **keyword)
        except Unsupported as error:
            raise error.with_location(at) from error
        except ConvertError:
            raise
        except Exception as error:
            if is_lack_of_memory(error):
                message = f"{at}: it takes more memory than there is{': ' if str(error) else ''}{error}"
                hint = "convert on a machine with more memory, or with a larger --memory"
                raise ResourceLimit(message, hint=hint) from error
            if self.runs_framework and is_own(entry.rule) and any(map(_has_no_elements, positional)):
                text = f"an input without elements ({type(error).__name__}: {error})"
                raise Unsupported(text).with_location(at) from error
            if is_own(entry.rule) and (lacking := _lacking(entry.rule, out, positional, keyword)):
                text = f"{at}: it has no {', no '.join(lacking)}, which the operator needs"
                raise BadInput(text, hint="export the model again, or mend what it says there") from error
            text, hint = f"{at}: the {self.title} rule failed with {type(error).__name__}: {error}", DEFECT
            if not is_own(entry.rule):
                text += f" at {place_of_error(error, entry.rule)}; {shown_call(entry.rule, out, positional, keyword)}"
                hint = "the rule is not one of convert's own: correct it there; -vv shows the traceback"
            raise ConvertError(text, hint=hint) from error

    def _add(self, operator: str, rule: Rule) -> None:
        if operator in self.entries:
            raise clash(self.title, operator, self.entries[operator].rule, rule)
        self.gaps.pop(operator, None)
        self.entries[operator] = Entry(rule)

    def _why(self, operator: str) -> str:
        return self.gaps.get(operator, f"no {self.title} rule for this operator")


def _lacking(rule: Rule, out: Any, positional: Sequence[Any], keyword: Mapping[str, Any]) -> list[str]:
    """Return the inputs and attributes without a default that a call of a rule with these arguments leaves out."""
    parameters = inspect.signature(rule).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in kinds]
    attributes = [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    return [name for name in (*needed[len((out, *positional)) :], *attributes) if name not in keyword]


def _has_no_elements(argument: Any) -> bool:
    """Return whether a value of any framework is known to have a dim of 0."""
    try:
        return any(isinstance(dim, int) and dim == 0 for dim in argument.shape)
    except (AttributeError, TypeError, ValueError):  # not a value, or a value of unknown rank
        return False


def bind_arguments(
    entry: Entry, schema: Schema | None, args: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and keyword arguments for a rule, from a node's inputs, attributes and schema defaults.

    Raises `Unsupported` for an argument that the rule does not name and that is not at the schema's default.
    """
    if schema is None:
        schema = Schema(tuple(Argument(f"argument {i}") for i in range(len(args))))
    names = [a.name for a in schema.positional]
    values = list(args)
    named = dict(attributes)
    for argument in schema.positional[len(values) :]:
        values.append(named.pop(argument.name, None if argument.default is REQUIRED else argument.default))
    keyword: dict[str, Any] = {}
    if not entry.variadic:
        count = len(entry.positional)
        for i, value in enumerate(values[count:], count):
            name = names[i] if i < len(names) else f"input {i}"
            default = schema.positional[i].default if i < len(names) else None
            _place_argument(keyword, entry, name, value, None if default is REQUIRED else default)
        values = values[:count]
    defaults = {a.name: None if a.default is REQUIRED else a.default for a in schema.keyword}
    accepted = entry.keyword | set(entry.positional[len(values) :])
    for name, value in {**defaults, **named}.items():
        if name in accepted:
            keyword[name] = value
        elif name not in schema.implied:
            _place_argument(keyword, entry, name, value, defaults.get(name))
    return values, keyword


def _place_argument(keyword: dict[str, Any], entry: Entry, name: str, value: Any, default: Any) -> None:
    if name in entry.keyword:
        keyword[name] = value
    elif not _equal(value, default):
        raise Unsupported(f"{name}={value!r} is not handled (only the default, {default!r}, is)")


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    try:
        return bool(a == b)
    except (TypeError, ValueError, RuntimeError):
        return False
