"""Settings: frozen dataclasses <-> plain mappings <-> YAML.

The dataclass is the only place where a default is written. YAML and the command line hold differences.

    settings = named(Training(), "pensieve")              # reelrl/configs/pensieve.yaml, or a path
    settings = override(settings, ["encoder.preset=10"])  # --set
    save(settings, "config.yaml")
    assert load(Training, "config.yaml") == settings

Files may not name code or programs of others (`reelrl.file_trust`); `override` and Python may.

A field that was renamed is read by its former name too, from files as from `--set`: the class lists it in
`ALIASES: ClassVar[dict[str, str]] = {"former": "name"}`. It is never written so.

Fields may be bool, int, float, str, Path, Fraction, an Enum, a Literal, another dataclass, and tuple, list, dict and
unions (first match wins) of these. `reelrl.settings.field_types` holds how each is read and written.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reelrl.errors import ConfigError, shown
from reelrl.file_trust import refuse_foreign
from reelrl.names import did_you_mean
from reelrl.settings import yaml_text
from reelrl.settings.field_types import Given, aliases, given_twice, read_settings, write_value
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

CONFIGS = Path(__file__).parent / "configs"
# What they were called in version 0.1.
FORMER_CONFIGS = {"eyes-gpu": "frame-reader-gpu"}


def to_mapping(settings: DataclassInstance) -> dict[str, Any]:
    """Plain data, ready for YAML or JSON: every field, nested ones as mappings."""
    plain: dict[str, Any] = write_value(settings)
    return plain


def from_mapping(
    cls: type[T], mapping: Mapping[str, Any], *, foreign: bool = False, origin: object = "the settings"
) -> T:
    """Settings from plain data; absent keys take their defaults, unknown keys and wrong types are errors.

    Data is taken to come from a file, `origin` in errors; `foreign` says that it comes from Python.
    """
    if not foreign:
        refuse_foreign(mapping, origin)
    return read_settings(cls, mapping)


def dumps(settings: DataclassInstance) -> str:
    return yaml_text.write(to_mapping(settings))


def loads(cls: type[T], text: str, origin: str = "settings") -> T:
    return from_mapping(cls, _mapping(yaml_text.parse(text, origin), origin), origin=origin)


def save(settings: DataclassInstance, path: str | Path) -> None:
    write_atomic(path, dumps(settings))


def load(cls: type[T], path: str | Path) -> T:
    return read_settings(cls, read_yaml(path))


def merge(settings: T, changes: Mapping[str, Any]) -> T:
    """The settings with `changes` over them, checked once at the end; nested settings merge, dicts replace."""
    return read_settings(type(settings), _overlay(settings, changes))


def override(settings: T, assignments: Iterable[str]) -> T:
    """The settings after `--set`: each assignment is "dotted.key=value", the value as in YAML."""
    plain = to_mapping(settings)
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set got {shown(assignment)}; write it as key=value, for example encoder.preset=10")
        _assign(
            plain, current_key(settings, key.strip()).split("."), Given(text, yaml_text.parse(text, f"--set {key}"))
        )
    return read_settings(type(settings), plain)


def current_key(settings: DataclassInstance, dotted: str) -> str:
    """A dotted key as it is called today: a class may list what its fields were called before, in `ALIASES`."""
    parts, node = [], settings
    for part in dotted.split("."):
        parts.append(aliases(type(node)).get(part, part))
        node = getattr(node, parts[-1], None)  # type: ignore[assignment]
    return ".".join(parts)


def differences(settings: DataclassInstance, base: DataclassInstance) -> dict[str, Any]:
    """What a YAML file must list to turn `base` into `settings`, which is what `merge` makes of it."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value, default = getattr(settings, field.name), getattr(base, field.name)
        if not field.init or value == default:
            continue
        nested = dataclasses.is_dataclass(value) and type(value) is type(default)
        changed[field.name] = differences(value, default) if nested else write_value(value)
    return changed


def named(settings: T, name: str | Path) -> T:
    """The settings with the differences of `configs/NAME.yaml`, or of the file at a path, over them."""
    path = _find(name)
    changes = read_yaml(path)
    try:
        return merge(settings, changes)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: {error}") from error


def known_configs() -> list[str]:
    """The names that `--config` takes."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file; of a run's config.yaml, its settings."""
    mapping = _mapping(yaml_text.read(path), str(path))
    refuse_foreign(mapping, path)
    return _mapping(mapping["settings"], str(path)) if mapping.keys() == {"stage", "settings"} else mapping


def _find(name: str | Path) -> Path:
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} or len(path.parts) != 1:
        return path
    known = FORMER_CONFIGS.get(str(name), str(name))
    if known not in known_configs():
        raise ConfigError(f"no settings are named {known!r}{did_you_mean(known, known_configs())}")
    return CONFIGS / f"{known}.yaml"


def _mapping(value: Any, origin: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{origin} holds {type(value).__name__}; settings are `key: value` lines")
    return value


def _overlay(settings: DataclassInstance, changes: Mapping[str, Any]) -> dict[str, Any]:
    plain = to_mapping(settings)
    for former, value in changes.items():
        key = aliases(type(settings)).get(former, former)
        if key != former and key in changes:
            raise given_twice(former, key)
        current = getattr(settings, str(key), None)
        nested = dataclasses.is_dataclass(current) and isinstance(value, dict)
        plain[key] = _overlay(current, value) if nested else value  # type: ignore[arg-type]
    return plain


def _assign(plain: dict[str, Any], parts: list[str], value: Given) -> None:
    node = plain
    for depth, part in enumerate(parts[:-1], 1):
        # Absent or None: the field's own type decides later whether a mapping is right here.
        inner = node.get(part)
        if inner is None:
            inner = node[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {'.'.join(parts)}: {'.'.join(parts[:depth])} is {shown(inner)} and has no parts")
        node = inner
    node[parts[-1]] = value
