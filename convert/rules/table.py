"""The operator table: how a rule is registered, how a source operator's arguments reach it, what is missing.

A rule is `rule(out, *inputs, **attributes)`: values are positional, attributes keyword, named as the source
operator's schema names them, and `out` is what is being built (a graph, a TensorFlow trace, a Caffe2 net).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from convert.dim_lists import check_lists
from convert.errors import DEFECT, ConvertError, Location, Problem, ResourceLimit, Unsupported, is_lack_of_memory
from convert.rules.rule_errors import is_own, place_of_error, shown_call

REQUIRED: Any = inspect.Parameter.empty
Rule = Callable[..., Any]


@dataclass(frozen=True)
class Argument:
    """One argument of a source operator's schema; `default` is `REQUIRED` where the schema has none."""

    name: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class Schema:
    """What a source operator accepts.

    `implied` names attributes that follow from the inputs (TensorFlow's type and number attributes, say) and that a
    rule may leave out without ignoring anything; a rule that does name one gets it.
    """

    positional: tuple[Argument, ...] = ()
    keyword: tuple[Argument, ...] = ()
    implied: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Entry:
    """A registered rule with its signature, taken apart once."""

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

    `schema(operator)` gives the source operator's `Schema`, or None where it is not known (a custom operator: then
    what the node carries is passed as it is). `gaps` are operators without a rule and `limits` what rules do not
    take, both with the reason. Tables are filled at import time and not changed by a conversion.

    runs_framework: rules call a framework on values, which may not take those without elements: an error of theirs is a
    refusal then, and no defect.

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
        """Decorator that registers a rule for one or more operators; raises ValueError if one has a rule already."""

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
        """Declare that `operators` cannot be expressed, and why; the reason becomes the error's text."""
        for operator in operators:
            if operator in self.entries:
                raise ValueError(f"{self.title}: {operator} has a rule and cannot be a gap")
            self.gaps[operator] = reason

    def limit(self, operator: str, reason: str) -> str:
        """Declare what the rule of `operator` does not take, and why; returns the text for it to raise."""
        if operator in self.limits:
            raise ValueError(f"{self.title}: {operator} has a limit already")
        self.limits[operator] = reason
        return reason

    def __contains__(self, operator: object) -> bool:
        return operator in self.entries

    def check(self, operators: Iterable[tuple[str, Location]]) -> None:
        """Raise one `Unsupported` that lists every operator without a rule; call it before any work is done."""
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
        """Call the rule for `operator` with schema defaults filled in.

        `schema` is given where the name alone does not tell it (an ATen overload); else the table looks it up.

        Raises `Unsupported` with the location if there is no rule, the rule does not name an argument that is not at
        its default, or the rule itself says so, `ResourceLimit` for lists of more numbers than tensors have dims; any
        other exception becomes a `ConvertError` with the location, a MemoryError a `ResourceLimit`.
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
            text, hint = f"{at}: the {self.title} rule failed with {type(error).__name__}: {error}", DEFECT
            if not is_own(entry.rule):
                text += f" at {place_of_error(error, entry.rule)}; {shown_call(entry.rule, out, positional, keyword)}"
                hint = "the rule is not one of convert's own: mend it there; -vv shows the traceback"
            raise ConvertError(text, hint=hint) from error

    def _add(self, operator: str, rule: Rule) -> None:
        if operator in self.entries:
            raise ValueError(f"{self.title}: {operator} has a rule already ({self.entries[operator].rule.__name__})")
        self.gaps.pop(operator, None)
        self.entries[operator] = Entry(rule)

    def _why(self, operator: str) -> str:
        return self.gaps.get(operator, f"no {self.title} rule for this operator")


def _has_no_elements(argument: Any) -> bool:
    """Whether a value of any framework is known to have a dim of 0."""
    try:
        return any(isinstance(dim, int) and dim == 0 for dim in argument.shape)
    except (AttributeError, TypeError, ValueError):  # no value, or one of unknown rank
        return False


def bind_arguments(
    entry: Entry, schema: Schema | None, args: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for a rule, from a node's inputs and attributes and the schema's defaults.

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
        room = len(entry.positional)
        for i, value in enumerate(values[room:], room):
            name = names[i] if i < len(names) else f"input {i}"
            default = schema.positional[i].default if i < len(names) else None
            _place_argument(keyword, entry, name, value, None if default is REQUIRED else default)
        values = values[:room]
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
