"""A safetensors file broken from within: its header says something else, or its numbers are none."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from tests.campaign.mutations import mutated_bytes, mutated_tree, strange

if TYPE_CHECKING:
    from random import Random


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and what follows it."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header: Any, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def mutated_safetensors(data: bytes, chance: Random) -> bytes:
    """Another header, other facts inside the metadata, numbers that are not finite, or plain damage."""
    header, body = parts(data)
    what = chance.random()
    if what < 0.45 and header.get("__metadata__"):
        return joined(_other_facts(header, chance), body)
    if what < 0.6:
        return joined(mutated_tree(header, chance), body)
    if what < 0.8:
        return joined(header, not_finite(body, chance))
    return mutated_bytes(data, chance)


def _other_facts(header: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Metadata are texts; most of ours are JSON or YAML."""
    key = chance.choice(sorted(header["__metadata__"]))
    text = header["__metadata__"][key]
    try:
        changed = json.dumps(mutated_tree(json.loads(text), chance))
    except ValueError:
        lines = text.splitlines()
        place = chance.randrange(len(lines))
        lines[place] = f"{lines[place].partition(':')[0]}: {strange(chance)!r}"
        changed = "\n".join(lines)
    return {**header, "__metadata__": {**header["__metadata__"], key: changed}}


def not_finite(body: bytes, chance: Random) -> bytes:
    """Float32 numbers that became nan, infinite or huge."""
    changed = bytearray(body)
    for _ in range(chance.choice([1, 5, 100])):
        place = 4 * chance.randrange(max(1, len(changed) // 4))
        number = chance.choice([float("nan"), float("inf"), float("-inf"), 3e38, 1e-45])
        changed[place : place + 4] = struct.pack("<f", number)[: len(changed[place : place + 4])]
    return bytes(changed)
