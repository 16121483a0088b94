"""How an input is broken: bytes that know nothing, structures that know what a number is, files that are none."""

from __future__ import annotations

import json
import os
import shutil
from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

HUGE = 10**400
STRANGE_NUMBERS: list[Any] = [
    *(0, -1, 1, 2**31, -(2**31), 2**32 - 1, 2**63, -(2**63), HUGE, -HUGE),
    *(0.0, -0.0, 0.5, -0.5, 1e308, -1e308, 5e-324, 1e-30, 1e30, 1e290),
    *(float("nan"), float("inf"), float("-inf")),
]
STRANGE_TEXTS = [
    *("", " ", "\0", "a\0b", "\ud800", "é\u202e\u2028\U0001f3ac", "nan", "inf", "1e400", "1/0", "-1", "010", "null"),
    *(
        "../../outside/victim",
        "/etc/passwd",
        "/dev/zero",
        "~",
        "a" * 5000,
        "9" * 400,
        "9" * 5000,
        "a/" * 400,
        "%s%n{0}",
    ),
]
STRANGE_OTHERS: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"a": {}}},
    [1, "a"],
    [[1, 2], [3]],
]


def strange(chance: Random) -> Any:
    """A value that no good program would write there."""
    # A copy: what is put into a tree may be changed there.
    return deepcopy(chance.choice(chance.choice([STRANGE_NUMBERS, STRANGE_NUMBERS, STRANGE_TEXTS, STRANGE_OTHERS])))


# -- bytes -----------------------------------------------------------------------------------------------------------


def mutated_bytes(data: bytes, chance: Random) -> bytes:
    """The data after one to four accidents."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 4])):
        chance.choice(_ACCIDENTS)(changed, chance)
    return bytes(changed)


def _place(data: bytearray, chance: Random) -> int:
    """Anywhere, often near the beginning, where headers are."""
    end = len(data) if chance.random() < 0.5 else min(len(data), 600)
    return chance.randrange(end) if end else 0


def _block(data: bytearray, chance: Random) -> tuple[int, int]:
    start = _place(data, chance)
    return start, start + chance.choice([1, 2, 4, 8, 16, 64, 256, 1024, 8192])


def _flip(data: bytearray, chance: Random) -> None:
    for _ in range(chance.choice([1, 2, 8, 32])):
        if data:
            data[_place(data, chance)] ^= 1 << chance.randrange(8)


def _cut(data: bytearray, chance: Random) -> None:
    del data[_place(data, chance) :]


def _delete(data: bytearray, chance: Random) -> None:
    start, stop = _block(data, chance)
    del data[start:stop]


def _duplicate(data: bytearray, chance: Random) -> None:
    start, stop = _block(data, chance)
    data[start:start] = data[start:stop] * chance.choice([1, 2, 10])


def _fill(data: bytearray, chance: Random) -> None:
    start, stop = _block(data, chance)
    length = len(data[start:stop])
    data[start : start + length] = chance.choice([bytes(length), b"\xff" * length, chance.randbytes(length)])


def _move(data: bytearray, chance: Random) -> None:
    start, stop = _block(data, chance)
    block = data[start:stop]
    del data[start:stop]
    place = _place(data, chance)
    data[place:place] = block


def _number(data: bytearray, chance: Random) -> None:
    """A binary number becomes a limit of its type, in either byte order."""
    size, start = chance.choice([1, 2, 4, 8]), _place(data, chance)
    value = chance.choice([0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), 2 ** (8 * size - 1) - 1, 255])
    written = (value % 2 ** (8 * size)).to_bytes(size, chance.choice(["little", "big"]))
    data[start : start + size] = written[: len(data[start : start + size])]


def _digits(data: bytearray, chance: Random) -> None:
    """A run of digits becomes another number."""
    digits = [i for i, byte in enumerate(data[:20_000]) if 48 <= byte <= 57]
    if digits:
        start = stop = chance.choice(digits)
        while stop < len(data) and 48 <= data[stop] <= 57:
            stop += 1
        data[start:stop] = str(chance.choice([0, -1, 65536, 99999999, 2**63, HUGE, "1e308", "nan"])).encode()


_ACCIDENTS: list[Callable[[bytearray, Random], None]] = [
    *(_flip, _flip, _cut, _delete, _duplicate, _fill, _move, _number, _number, _digits)
]

# -- structures ------------------------------------------------------------------------------------------------------


def mutated_tree(tree: Any, chance: Random) -> Any:
    """Plain data (mappings, lists, numbers, texts) with one to three values, keys or branches changed."""
    tree = json.loads(json.dumps(tree))
    for _ in range(chance.choice([1, 1, 2, 3])):
        tree = _changed(tree, chance)
    return tree


def _changed(tree: Any, chance: Random) -> Any:
    holders = [node for node in _nodes(tree) if isinstance(node, dict | list) and node]
    if not holders or chance.random() < 0.03:
        return strange(chance)
    holder = chance.choice(holders)
    key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
    what = chance.random()
    if what < 0.55:
        holder[key] = strange(chance)
    elif what < 0.65:
        del holder[key]
    elif what < 0.75:
        holder[key] = json.loads(json.dumps(chance.choice(holders)))  # a branch where a leaf was
    elif what < 0.85:
        _add(holder, key, chance)
    elif what < 0.92:
        holder[key] = _nested(chance.choice([10, 100, 250]))
    else:
        holder[key] = [holder[key]]
    return tree


def _add(holder: dict[Any, Any] | list[Any], key: Any, chance: Random) -> None:
    if isinstance(holder, dict):
        holder[str(chance.choice(STRANGE_TEXTS))] = strange(chance)
    else:
        holder[:] = [*holder, holder[key]] if chance.random() < 0.5 else holder * chance.choice([0, 2, 50])


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _nodes(tree: Any) -> list[Any]:
    found = [tree]
    for node in found:
        found.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else [])
        if len(found) > 20_000:
            break
    return found


def mutated_json(text: str, chance: Random) -> bytes:
    """A JSON document after changes to what it says, or now and then to how it says it."""
    if chance.random() < 0.2:
        return odd_text(text, chance)
    try:
        tree = json.loads(text)
    except ValueError:  # it was hit before and is no JSON any more
        return odd_text(text, chance)
    return json.dumps(mutated_tree(tree, chance)).encode()


def odd_text(text: str, chance: Random) -> bytes:
    """A text document that its parser may choke on."""
    data = text.encode()
    ways: list[Callable[[], bytes]] = [
        lambda: mutated_bytes(data, chance),
        lambda: b"\xff\xfe" + data,
        lambda: b"\xef\xbb\xbf" + data,
        lambda: text.encode("utf-16"),
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: b"[" * chance.choice([1000, 100_000]) + data,
        lambda: b'{"a":' * chance.choice([1000, 50_000]),
        lambda: data + b"\0" * 100,
        lambda: data * 2,
        lambda: b"",
        lambda: b"\xe9" + data,
        lambda: data.decode("latin-1").translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")).encode(),
    ]
    return chance.choice(ways)()


# -- files -----------------------------------------------------------------------------------------------------------


def replace_by_something_else(path: Path, outside: Path, chance: Random, *, pipes: bool = True) -> str:
    """Put something that is no plain file at this name; says what. No `pipes` where a user names one to be read."""
    kinds: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(outside / "victim"),
        "broken link": lambda: path.symlink_to(outside / "nothing"),
        "loop": lambda: path.symlink_to(path.name),
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "folder": lambda: path.mkdir(),
        "nothing": lambda: None,
        "empty": lambda: path.touch(),
        "unreadable": lambda: path.touch(0),
    }
    kind = chance.choice([kind for kind in kinds if pipes or kind != "pipe"])
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    kinds[kind]()
    return kind
