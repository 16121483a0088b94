"""SVT-AV1's C interface, loaded from the `av` wheel without a compiler.

The configuration stays an opaque buffer: nearly everything is set by name. The three fields that have no name sit
right before a field that has one, so their places are found by setting that neighbour and looking which byte moved.
Structures below are those of version 4; the self-test guards against a library whose layout differs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import cffi
import numpy as np

from reelrl.encode.codecs.libraries import find_library, parse_version
from reelrl.errors import EncoderMissing

CONFIG_BYTES = 1 << 16
ROI_MAP_EVENT, RATE_CHANGE_EVENT, COMPUTE_QUALITY_EVENT = 2, 4, 6
EOS_FLAG = 1
KEY_PICTURE, NON_REFERENCE_PICTURE, ANY_PICTURE = 3, 4, 0xFF
FIRST_PASS_STATISTICS = 1
EMPTY_QUEUE = 0x80002033 - (1 << 32)  # nothing is ready yet

ffi: Any = cffi.FFI()
ffi.cdef("""
typedef struct { uint32_t size; uint8_t* buffer; uint32_t filled, allocated; void *events, *wrapper;
  uint32_t ticks; int64_t dts, pts; uint8_t layer; uint32_t qp, average_qp, picture_type;
  uint64_t y_sse, cr_sse, cb_sse; uint32_t flags; double y_ssim, cr_ssim, cb_ssim; void* metadata; } Header;
typedef struct { uint8_t *y, *cb, *cr; uint32_t y_stride, cr_stride, cb_stride; } Planes;
typedef struct Event { int type; void* data; uint32_t size; struct Event* next; } Event;
typedef struct { uint64_t first_picture; uint8_t* segments; int16_t qindex[8]; int8_t last_segment;
  void* next; } RoiMap;
typedef struct { uint32_t base_qp, target_bit_rate; } Rate;
typedef struct { _Bool psnr, ssim; } Quality;
typedef struct { void* data; uint64_t size; } FixedBuffer;
const char* svt_av1_get_version(void);
void svt_av1_set_log_callback(void* callback, void* context);
int svt_av1_enc_init_handle(void** handle, void* config);
int svt_av1_enc_parse_parameter(void* config, const char* name, const char* value);
int svt_av1_enc_set_parameter(void* handle, void* config);
int svt_av1_enc_init(void* handle);
int svt_av1_enc_send_picture(void* handle, Header* picture);
int svt_av1_enc_get_packet(void* handle, Header** packet, uint8_t all_sent);
void svt_av1_enc_release_out_buffer(Header** packet);
int svt_av1_get_recon(void* handle, Header* picture);
int svt_av1_enc_get_stream_info(void* handle, uint32_t which, void* info);
int svt_av1_enc_deinit(void* handle);
int svt_av1_enc_deinit_handle(void* handle);
int vsnprintf(char* text, size_t size, const char* format, void* arguments);
""")

_WHEELS = {"av": "av.libs", "decord": "decord2.libs"}
_libc = ffi.dlopen(None)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One message of the library; `serial` counts all messages of the process."""

    serial: int
    is_error: bool
    text: str


_serial = count()
_lines: deque[LogLine] = deque(maxlen=40)
_HARMLESS = ("deinit called without sending EOS", "invalid private data of type ROI_MAP_EVENT")


@ffi.callback("void(void*, int, const char*, const char*, void*)")  # type: ignore[untyped-decorator]
def _log(_context: Any, level: int, _tag: Any, text: Any, arguments: Any) -> None:
    """Keep errors and warnings. Called from encoder threads, so it does no more than append."""
    if level <= 2:
        line = ffi.new("char[]", 512)
        _libc.vsnprintf(line, 512, text, arguments)
        _lines.append(LogLine(next(_serial), level <= 1, ffi.string(line).decode("utf-8", "replace").strip()))


def log_mark() -> int:
    """A place in the log; hand it to `last_words` to get only what came after."""
    return next(_serial)


def last_words(since: int) -> str:
    """Errors the library logged after a mark, else its warnings. The log is the process's: sessions share it."""
    recent = [line for line in tuple(_lines) if line.serial > since and not any(h in line.text for h in _HARMLESS)]
    errors = [line for line in recent if line.is_error]
    return "\n".join(dict.fromkeys(line.text for line in errors or recent if line.text))


@dataclass(frozen=True)
class SvtAv1Library:
    """The loaded library and the places of the unnamed configuration fields, in bytes."""

    lib: Any
    path: str
    version: str
    recon_at: int
    roi_at: int
    statistics_at: int


@cache
def load() -> SvtAv1Library:
    """The library, loaded once and probed; EncoderMissing when it cannot be used."""
    path = str(find_library("REELRL_SVTAV1_LIB", _WHEELS, "libSvtAv1Enc*.so*"))
    try:
        lib = ffi.dlopen(path)
        version = ffi.string(lib.svt_av1_get_version()).decode().removeprefix("v")
        check_version(version)
        lib.svt_av1_set_log_callback(_log, ffi.NULL)
        return SvtAv1Library(
            lib=lib,
            path=path,
            version=version,
            recon_at=_field(lib, "enable-force-key-frames", "0", "1") - 1,
            roi_at=_field(lib, "tf-strength", "1", "2") - 1,
            statistics_at=_field(lib, "pass", "1", "2") - ffi.sizeof("FixedBuffer"),
        )
    except (OSError, AttributeError) as error:
        raise EncoderMissing(f"{path} is no usable SVT-AV1 library: {error}; reinstall the av wheel") from error


def check_version(version: str) -> None:
    """Refuse versions whose structures or events are not those declared here."""
    if parse_version(version)[0] != 4:
        raise EncoderMissing(f"SVT-AV1 {version} found, version 4 needed; run: pip install 'av>=18.1,<19'")


def _field(lib: Any, name: str, one: str, other: str) -> int:
    """Byte at which a named option lies in the configuration."""
    configs = []
    for value in (one, other):
        config = np.zeros(CONFIG_BYTES, np.uint8)
        if lib.svt_av1_enc_parse_parameter(ffi.from_buffer(config), name.encode(), value.encode()):
            raise EncoderMissing(f"SVT-AV1 does not know its option {name!r}: its layout is not one we know")
        configs.append(config)
    moved = np.flatnonzero(configs[0] != configs[1])
    if moved.size != 1:
        raise EncoderMissing(f"SVT-AV1's option {name!r} moves {moved.size} bytes: its layout is not one we know")
    return int(moved[0])
