"""The three files by which an encoder of any kind is steered: a request, a decision, a feedback.

    mg0007_rq.json   encoder -> trainer   which mini-GOP comes next, and what the encoder itself would do
    mg0007_qp.json   trainer -> encoder   {"qp": 38}
    mg0007_fb.json   encoder -> trainer   what it cost and gave; "gop_end": 1 ends a GOP

The tables below are the whole schema; docs/handshake/*.schema.json says the same in JSON Schema. Fields that are
not in them pass through. `handshake_encoder` and `handshake_source` are the two sides.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from reelrl.encode.minigop.protocols import MiniGopFeedback, MiniGopRequest
from reelrl.errors import HandshakeError
from reelrl.runs.records import to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = 1
"""Version of the tables. A file without the field `schema` is taken for version 1."""

LOWEST_QP, HIGHEST_QP = 1, 63
LARGEST = 2**53
"""Of all numbers, above and below 0: what every reader of JSON takes for the same integer."""

Kind = Literal["integer", "number", "flag", "string", "integers", "numbers by name", "object"]


@dataclass(frozen=True)
class Field:
    """What a field may hold. A flag is 0 or 1."""

    kind: Kind
    says: str
    least: float | None = None
    most: float | None = None
    needed: bool = True


_COMMON = {
    "schema": Field("integer", "version of this schema", least=1, needed=False),
    "session": Field("string", "names one encode; all its files carry the same", needed=False),
}
_QP = (LOWEST_QP, HIGHEST_QP)

REQUEST: dict[str, Field] = {
    "mg": Field("integer", "number of the mini-GOP in the stream, from 0, as in the file's name", least=0),
    "gop": Field("integer", "number of its GOP, from 0", least=0),
    "frames": Field("integer", "frames in this mini-GOP", least=1),
    "base_qp": Field("integer", "QP that the encoder itself would base it on", *_QP),
    "layer_qps": Field("integers", "QP that the encoder itself would give each picture, in display order", 0, 63),
    "bits_left": Field("number", "bits of the budget that are not spent yet"),
    "frames_left": Field("integer", "frames that are not coded yet, this mini-GOP's among them", least=1),
    "features": Field("numbers by name", "complexity of the source: intra, inter, motion, scene_cut, ..."),
    "first_frame": Field("integer", "display number of its first frame", least=0, needed=False),
    "episode": Field("object", "what is known beforehand: fields of MiniGopEpisode (first request)", needed=False),
    "encoder": Field("string", "name and version of the encoder", needed=False),
    **_COMMON,
}
DECISION: dict[str, Field] = {
    "qp": Field("integer", "base QP to code the mini-GOP with: the request's base_qp plus the agent's delta", *_QP),
    "mg": Field("integer", "the mini-GOP meant", least=0, needed=False),
    **_COMMON,
}
FEEDBACK: dict[str, Field] = {
    "mg": Field("integer", "number of the mini-GOP, as in the file's name", least=0),
    "qp": Field("integer", "base QP that it was coded with", *_QP),
    "bits": Field("integer", "bits that it took", least=0),
    "psnr_y": Field("number", "mean luma PSNR of its frames in dB; 100 where nothing was lost", least=0, most=1000),
    "gop_end": Field("flag", "1 when a GOP ends with it"),
    "frames": Field("integer", "frames in this mini-GOP", least=1),
    "sse_y": Field("integer", "squared luma error, summed over its frames", least=0, needed=False),
    "ssim_y": Field("number", "mean luma SSIM of its frames", needed=False),
    **_COMMON,
}
MESSAGES: dict[str, dict[str, Field]] = {"rq": REQUEST, "qp": DECISION, "fb": FEEDBACK}

Message = dict[str, Any]


def file_name(mg: int, kind: str) -> str:
    """`mg0007_rq.json`; beyond 9999 the number grows longer."""
    return f"mg{mg:04d}_{kind}.json"


def decided_qp(base_qp: int, delta: float) -> int:
    """The absolute, whole QP that goes into the file."""
    return min(max(round(base_qp + delta), LOWEST_QP), HIGHEST_QP)


def checked(message: object, fields: Mapping[str, Field], where: object) -> Message:
    """The message with whole numbers as integers; a wrong one is refused with the field, its value and the remedy."""
    if not isinstance(message, dict):
        raise HandshakeError(f"{where} holds {shown(message)}; write one JSON object")
    missing = [name for name, field in fields.items() if field.needed and name not in message]
    if missing:
        given = ", ".join(message) or "nothing"
        raise HandshakeError(
            f"{where} lacks {', '.join(missing)} (found: {given:.200}); write every field of the schema"
        )
    known = {name: field_value(message[name], field, name, where) for name, field in fields.items() if name in message}
    if known.get("schema", SCHEMA) > SCHEMA:
        raise HandshakeError(
            f"{where} is of schema {shown(known['schema'])}, this reelrl knows {SCHEMA}; update reelrl"
        )
    return message | known


def request_message(request: MiniGopRequest, **more: object) -> Message:
    return {"schema": SCHEMA, **_plain(request), **more}


def feedback_message(feedback: MiniGopFeedback, **more: object) -> Message:
    known = {name: value for name, value in _plain(feedback).items() if value is not None}
    return {"schema": SCHEMA, **known, "gop_end": int(feedback.gop_end), **more}


def read_request(message: Message, first_frame: int) -> MiniGopRequest:
    """The request in a checked message; `first_frame` counts for those who do not tell."""
    own = {name: message[name] for name in ("mg", "gop", "frames", "base_qp", "bits_left", "frames_left", "features")}
    first = message.get("first_frame", first_frame)
    return MiniGopRequest(**own, first_frame=first, layer_qps=tuple(message["layer_qps"]))


def read_feedback(message: Message, delta: float, luma_pixels: int) -> MiniGopFeedback:
    """The feedback in a checked message. Who gives no error sum gets the one that fits the PSNR."""
    own = {name: message[name] for name in ("mg", "qp", "bits", "psnr_y", "frames")}
    sse = message.get("sse_y")
    if sse is None:
        sse = round(luma_pixels * message["frames"] * 255**2 / 10 ** (message["psnr_y"] / 10))
    return MiniGopFeedback(
        **own, gop_end=bool(message["gop_end"]), delta=delta, sse_y=sse, ssim_y=message.get("ssim_y")
    )


def json_schema(kind: str) -> Message:
    """The table of "rq", "qp" or "fb" as JSON Schema."""
    fields = MESSAGES[kind]
    titles = {"rq": "request", "qp": "decision", "fb": "feedback"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"mg%04d_{kind}.json: {titles[kind]}",
        "type": "object",
        "required": [name for name, field in fields.items() if field.needed],
        "properties": {name: _described(field) for name, field in fields.items()},
        "additionalProperties": True,
    }


def _described(field: Field) -> Message:
    bounds = {"minimum": field.least, "maximum": field.most}
    limits = {name: bound for name, bound in bounds.items() if bound is not None}
    if field.kind == "flag":
        shape: Message = {"enum": [0, 1]}
    elif field.kind == "integers":
        shape = {"type": "array", "items": {"type": "integer", **limits}}
    elif field.kind == "numbers by name":
        shape = {"type": "object", "additionalProperties": {"type": "number"}}
    else:
        shape = {"type": field.kind, **limits}
    return {"description": field.says, **shape}


def field_value(value: Any, field: Field, name: str, where: object) -> Any:
    """The value, whole numbers as integers; one that the field cannot hold is refused."""
    where = f"{where}: {name}"
    if field.kind == "string":
        if not isinstance(value, str):
            raise HandshakeError(f"{where} = {shown(value)}; write a string")
        return value
    if field.kind == "object":
        if not isinstance(value, dict):
            raise HandshakeError(f"{where} = {shown(value)}; write an object")
        return value
    if field.kind == "integers":
        if not isinstance(value, list):
            raise HandshakeError(f"{where} = {shown(value)}; write a list of whole numbers")
        return [_number(item, "integer", field, where) for item in value]
    if field.kind == "numbers by name":
        if not isinstance(value, dict):
            raise HandshakeError(f"{where} = {shown(value)}; write an object of numbers by name")
        return {key: float(_number(item, "number", field, f"{where}.{key:.40}")) for key, item in value.items()}
    return _number(value, field.kind, field, where)


def _number(value: Any, kind: str, field: Field, where: str) -> Any:
    if kind == "flag":
        if value not in (0, 1):
            raise HandshakeError(f"{where} = {shown(value)}; write 0 or 1")
        return int(value)
    # Compared before anything is made of it: an integer of 400 digits has no float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
        raise HandshakeError(f"{where} = {shown(value)}; write a finite number, of 2**53 at most")
    if kind == "integer":
        if value != int(value):
            raise HandshakeError(f"{where} = {value}; write a whole number")
        value = int(value)
    if (field.least is not None and value < field.least) or (field.most is not None and value > field.most):
        upper = f" to {field.most:g}" if field.most is not None else " or more"
        raise HandshakeError(f"{where} = {shown(value)}; use {field.least:g}{upper}")
    return value


def _plain(record: MiniGopRequest | MiniGopFeedback) -> Message:
    plain: Message = to_plain(asdict(record))
    return plain


def shown(value: object) -> str:
    """The value in an error, as JSON and short whatever it is."""
    try:
        text = json.dumps(value, default=str)
    except (RecursionError, ValueError):
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."
