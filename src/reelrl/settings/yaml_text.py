"""YAML as people expect it, for settings.

PyYAML follows YAML 1.1, where `1e-3` is text, `no` is false, `16:9` is 969 and `010` is 8. Here the rules of YAML 1.2
hold: only true/false are booleans, numbers look like numbers, the rest is text. A key written twice is an error. So is
what is too long, too deep, or made large by aliases.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from reelrl.errors import LONGEST_VALUE, ConfigError
from reelrl.storage.files import explain_os_error
from reelrl.storage.plain_data import DEEPEST, check_limits

if TYPE_CHECKING:
    from reelrl.errors import ReelError


class _Loader(yaml.SafeLoader):
    # Own, empty table: the class attribute is shared with SafeLoader otherwise.
    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012  # PyYAML's name and type
    # No dates, sets or bytes behind a tag: settings are plain values.
    yaml_constructors = {  # noqa: RUF012
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in {"null", "bool", "int", "float", "str", "seq", "map"}
    }

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # Noticed on the way down: PyYAML recurses, and takes seconds to find that it went too deep.
        if self._depth > DEEPEST:
            problem = f"it is nested deeper than {DEEPEST} levels"
            raise yaml.composer.ComposerError(None, None, problem, self.get_mark())
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool | None):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain value", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is written twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012

    def ignore_aliases(self, _data: Any) -> bool:
        """Write a value that occurs twice twice; anchors confuse readers."""
        return True


def _write_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes the rarer line breaks (U+0085, U+2028) bare in single quotes and reads them back as blanks.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _write_text)

# The writer needs the same rules as the reader, to know which texts to quote.
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf)|\.nan|\.NaN", None),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first or list("-+0123456789.")
        )


LARGEST_TEXT = 2**20
MOST_ITEMS = 100_000
_LARGEST_FILE = 4 * LARGEST_TEXT  # a character of UTF-8 has four bytes at most


def parse(text: str, origin: str) -> Any:
    """The plain value that `text` holds; `origin` names its place in errors."""
    if len(text) > LARGEST_TEXT:
        raise ConfigError(f"{origin} has {len(text):,} characters; YAML of settings has at most {LARGEST_TEXT:,}")
    try:
        value = yaml.load(text, _Loader)  # derived from SafeLoader
        check_limits(value, MOST_ITEMS)
    except (yaml.YAMLError, ValueError, LookupError) as error:  # a tag may stand before any text: `!!bool maybe`
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{origin}{place} is not valid YAML: {problem[:LONGEST_VALUE]}") from error
    return value


def read(path: str | Path, *, error: type[ReelError] = ConfigError) -> Any:
    """The plain value in a file of UTF-8 text; `error` is raised where it cannot be read."""
    try:
        with Path(path).open("rb") as file:  # it may be a pipe or a device, whose end nobody knows
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise error(f"{path} has more than {_LARGEST_FILE:,} bytes; YAML of settings is short: give such a file")
        text = data.decode("utf-8")
    except OSError as problem:
        raise error(explain_os_error(problem, path, "read")) from problem
    except UnicodeDecodeError as problem:
        raise error(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from problem
    try:
        return parse(text, str(path))
    except ConfigError as problem:
        raise problem if error is ConfigError else error(str(problem)) from problem


def write(value: Any) -> str:
    """YAML text that `parse` turns back into an equal value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
