"""YAML as people expect it, for settings.

PyYAML follows YAML 1.1, where `1e-3` is text, `no` is false, `16:9` is 969 and `010` is 8. Here the rules of YAML 1.2
hold: only true/false are booleans, numbers look like numbers, the rest is text. A key written twice is an error.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from reelrl.errors import ConfigError


class _Loader(yaml.SafeLoader):
    # Own, empty table: the class attribute is shared with SafeLoader otherwise.
    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012  # PyYAML's name and type

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


def parse(text: str, origin: str) -> Any:
    """The plain value that `text` holds; `origin` names its place in errors."""
    try:
        return yaml.load(text, _Loader)  # derived from SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{origin}{place} is not valid YAML: {problem}") from error


def write(value: Any) -> str:
    """YAML text that `parse` turns back into an equal value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
