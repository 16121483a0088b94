"""How each type of a setting is read from plain data and written back. Used by `reelrl.settings.config`.

Reading is strict: "yes" is no bool, 3.0 is no int; an int is fine where a float is asked for. Errors name the key.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

from reelrl.errors import ConfigError, shown
from reelrl.names import did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


@dataclasses.dataclass(frozen=True)
class Given:
    """A value from the command line: its text, and what YAML makes of it. A str field may want the text `10`."""

    text: str
    value: Any


def read_settings(cls: type[T], mapping: Any, where: str = "") -> T:
    """An instance of the dataclass; `where` is its dotted key, empty at the top."""
    if not isinstance(mapping, Mapping):
        raise _wrong(mapping, f"settings of {cls.__name__} (`key: value` lines)", where)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    mapping = _without_aliases(cls, mapping, where)
    for key in mapping:
        if key not in fields:
            raise ConfigError(f"unknown setting {shown(_dotted(where, key))}{_suggest(str(key), where, fields)}")
    hints = field_types(cls)
    values = {key: read_value(hints[key], value, _dotted(where, key)) for key, value in mapping.items()}
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise ConfigError(f"setting {_dotted(where, name)!r} is missing and has no default; give it a value")
    return _build(cls, values, where)


def aliases(cls: type) -> dict[str, str]:
    """What fields of a settings class were called before, and are called now."""
    former: dict[str, str] = getattr(cls, "ALIASES", {})
    return former


def given_twice(former: str, name: str) -> ConfigError:
    return ConfigError(f"{former!r} and {name!r} are the same setting by two names; give {name!r} alone")


def _without_aliases(cls: type, mapping: Mapping[Any, Any], where: str) -> Mapping[Any, Any]:
    former = aliases(cls)
    if not former.keys() & mapping.keys():
        return mapping
    for old, name in former.items():
        if old in mapping and name in mapping:
            raise given_twice(_dotted(where, old), _dotted(where, name))
    return {former.get(key, key): value for key, value in mapping.items()}


def read_value(kind: Any, value: Any, where: str) -> Any:
    """`value` as `kind`, or a ConfigError that names `where`."""
    if isinstance(value, Given):
        return _read_given(kind, value, where)
    origin = typing.get_origin(kind)
    if origin in {Union, types.UnionType}:
        return _read_union(kind, value, where)
    if origin is Literal:
        return _read_literal(kind, value, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return read_settings(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _read_enum(kind, value, where)
    container = _CONTAINERS.get(origin or kind)
    if container is not None:
        return container(kind, value, where)
    return _read_scalar(kind, value, where)


def write_value(value: Any) -> Any:
    """Plain data for `value`: None, bool, int, float, str, list and dict only."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (field for field in dataclasses.fields(value) if field.init)
        return {field.name: write_value(getattr(value, field.name)) for field in fields}
    if isinstance(value, Enum):
        return _enum_text(value)
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {write_value(key): write_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [write_value(item) for item in value]
    if value is None or type(value) in {bool, int, float, str}:
        return value
    raise ConfigError(f"a setting holds {type(value).__name__} {value!r}, which YAML cannot; use a plain type")


@cache
def field_types(cls: type) -> dict[str, Any]:
    """The types of a settings class, with its text annotations evaluated."""
    try:
        return typing.get_type_hints(cls)
    except NameError as error:
        raise TypeError(
            f"{cls.__qualname__} has a field type that is unknown at run time ({error}); "
            "settings classes import the types of their fields outside `if TYPE_CHECKING`"
        ) from error


def _build(cls: type[T], values: dict[str, Any], where: str) -> T:
    try:
        return cls(**values)
    except ConfigError as error:
        # A class checks itself without knowing where it is nested.
        raise (ConfigError(f"{where}: {error}") if where else error) from error.__cause__


def _read_given(kind: Any, given: Given, where: str) -> Any:
    try:
        return read_value(kind, given.value, where)
    except ConfigError:
        if isinstance(given.value, str | list | dict) or given.value is None:
            raise
        try:
            return read_value(kind, given.text, where)
        except ConfigError:
            pass
        raise


def _read_union(kind: Any, value: Any, where: str) -> Any:
    members = typing.get_args(kind)
    if value is None and type(None) in members:
        return None
    choices = [member for member in members if member is not type(None)]
    if len(choices) == 1:
        return read_value(choices[0], value, where)
    for member in choices:
        try:
            return read_value(member, value, where)
        except ConfigError:
            continue
    raise _wrong(value, " or ".join(_name(member) for member in members), where)


def _read_literal(kind: Any, value: Any, where: str) -> Any:
    choices = typing.get_args(kind)
    # 1 == True == 1.0 in Python, not for a reader of settings.
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    hint = did_you_mean(_word(value), [str(choice) for choice in choices])
    raise ConfigError(f"setting {where!r} is {shown(value)}{hint}")


def _read_enum(kind: type[Enum], value: Any, where: str) -> Enum:
    if isinstance(value, kind):
        return value
    members = {_enum_text(member): member for member in kind}
    named = members | {name: member for name, member in kind.__members__.items() if name not in members}
    if isinstance(value, str) and value in named:
        return named[value]
    raise ConfigError(f"setting {where!r} is {shown(value)}{did_you_mean(_word(value), members)}")


def _enum_text(member: Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name


def _read_tuple(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    items = _items(value, where)
    kinds = typing.get_args(kind)
    if not kinds or kinds[-1] is Ellipsis:
        return tuple(_read_items(kinds[0] if kinds else Any, items, where))
    if len(items) != len(kinds):
        raise ConfigError(f"setting {where!r} has {len(items)} entries {shown(items)}; it needs {len(kinds)}")
    return tuple(
        read_value(each, item, f"{where}[{i}]") for i, (each, item) in enumerate(zip(kinds, items, strict=True))
    )


def _read_list(kind: Any, value: Any, where: str) -> list[Any]:
    return _read_items(next(iter(typing.get_args(kind)), Any), _items(value, where), where)


def _read_dict(kind: Any, value: Any, where: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(value, "a mapping", where)
    key_kind, item_kind = typing.get_args(kind) or (Any, Any)
    return {
        read_value(key_kind, key, where): read_value(item_kind, item, _dotted(where, key))
        for key, item in value.items()
    }


_CONTAINERS: dict[Any, Any] = {tuple: _read_tuple, list: _read_list, dict: _read_dict}


def _items(value: Any, where: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _wrong(value, "a list", where)
    return list(value)


def _read_items(kind: Any, items: list[Any], where: str) -> list[Any]:
    return [read_value(kind, item, f"{where}[{index}]") for index, item in enumerate(items)]


def _read_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        # Anything goes; only what was typed becomes its value, also inside: --set actor.video_encoder_cfg.seed=3
        inner = isinstance(value, Mapping)
        return {key: read_value(Any, item, _dotted(where, key)) for key, item in value.items()} if inner else value
    if kind is float and type(value) is int:
        return float(value)
    if kind is Fraction:
        return _read_fraction(value, where)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is None or kind is type(None):
        if value is None:
            return None
        raise _wrong(value, "null", where)
    if kind in {bool, int, float, str}:
        if type(value) is kind:
            return value
        raise _wrong(value, _name(kind), where)
    if kind is Path:
        raise _wrong(value, "a path", where)
    raise TypeError(f"setting {where!r} has the type {kind!r}, which settings cannot hold; see reelrl.settings.config")


def _read_fraction(value: Any, where: str) -> Fraction:
    if isinstance(value, str | int | float | Fraction) and not isinstance(value, bool):
        try:
            # A float goes through its text: 29.97 means 2997/100, not its nearest binary number.
            return value if isinstance(value, Fraction) else Fraction(str(value))
        except (ValueError, ZeroDivisionError):
            pass
    raise _wrong(value, "a number or fraction such as 30000/1001", where)


_ARTICLES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path"}


def _name(kind: Any) -> str:
    return _ARTICLES.get(kind, "null" if kind is type(None) else getattr(kind, "__name__", str(kind)))


def _wrong(value: Any, wanted: str, where: str) -> ConfigError:
    key = f"setting {where!r}" if where else "the settings"
    return ConfigError(f"{key}: {wanted} is needed, found {type(value).__name__} {shown(value)}")


def _word(value: Any) -> str:
    """What somebody may have meant as a word; comparing long texts takes long."""
    return str(value) if isinstance(value, str | int | float) else ""


def _dotted(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def _suggest(key: str, where: str, known: Mapping[str, Any]) -> str:
    # Compared without the prefix, suggested with it.
    hint = did_you_mean(key, known)
    return (
        hint.replace("did you mean '", f"did you mean '{where}.").replace(" or '", f" or '{where}.") if where else hint
    )
