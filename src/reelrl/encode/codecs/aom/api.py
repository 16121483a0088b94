"""libaom's C interface, loaded from the OpenCV wheel without a compiler.

libaom has a public hook for external rate control: per frame it asks for a quantiser index, and, if wanted, for one
per superblock, which it codes as true delta-q with its Lagrangian following. The layout below is that of encoder
ABI 29 (libaom 3.14); `aom_codec_enc_init_ver` refuses to open under any other number, so a mismatch cannot go
unnoticed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import cffi
import numpy as np

from reelrl.encode.codecs.libraries import find_library, parse_version
from reelrl.errors import EncoderMissing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.frame import Plane

ABI = 29
CONTEXT_BYTES, CONFIG_BYTES, IMAGE_BYTES = 56, 904, 168
I420, I420_HIGH_DEPTH = 258, 258 | 2048
HIGH_DEPTH_FLAG = 0x40000
ONE_PASS, FIRST_PASS, LAST_PASS = 0, 1, 2
GOOD_QUALITY, REAL_TIME = 0, 1
VBR, CBR, CONSTANT_QUALITY = 0, 1, 3
FRAME_PACKET, STATISTICS_PACKET = 0, 1
KEY_FLAG = 1
DEFAULT_RDMULT = -1
OBSERVER, QP_MODEL = 0, 1
CPU_USED, AUTO_ALT_REF, CQ_LEVEL, AQ_MODE, SUPERBLOCK_SIZE, DELTAQ_MODE, EXTERNAL_RATE_CONTROL = (
    13,
    14,
    25,
    40,
    56,
    107,
    173,
)
GET_LAST_QUANTIZER_64 = 20
GET_GOP_INFO = 174
QUANTIZER_ONE_PASS = 159
SUPERBLOCK_64 = 0
STATISTICS_RECORD = 240
"""Bytes of one frame's first-pass statistics; one more record at the end sums them up."""

ffi: Any = cffi.FFI()
ffi.cdef("""
typedef struct { int q_index, rdmult; } Superblock;
typedef struct { int q_index, rdmult; int *use_delta_q; Superblock *superblocks; } Decision;
typedef struct { int type, pad; void *create, *statistics, *tpl, *decide, *update, *key_frame, *gop, *rdmult, *destroy;
  void *model; } RateControl;
typedef struct { int64_t bits; int q_index, pad; } Coded;
typedef struct { int16_t row, column; int64_t source_sse, source_distortion, coded_sse, coded_distortion, intra_sse,
  intra_distortion, compound_distortion[2], dependent_rate, dependent_distortion, prediction_error[7];
  int32_t intra_cost, inter_cost, rates[5]; uint32_t motion[7]; int8_t references[2]; } TplBlock;
typedef struct { int width, height, count; TplBlock *blocks; } TplFrame;
typedef struct { int count; TplFrame *frames; } TplGop;
typedef struct { int size, coding[250], display[250], layer[250]; } GopInfo;
typedef struct { int kind, pad; void* data; size_t size; int64_t pts; unsigned long duration; uint32_t flags; } Packet;
const char* aom_codec_version_str(void);
const char* aom_codec_error(void* context);
const char* aom_codec_error_detail(void* context);
void* aom_codec_av1_cx(void);
int aom_codec_enc_config_default(void* interface, void* config, unsigned usage);
int aom_codec_enc_init_ver(void* context, void* interface, void* config, long flags, int abi);
int aom_codec_control(void* context, int id, ...);
int aom_codec_set_option(void* context, const char* name, const char* value);
void* aom_img_wrap(void* image, int format, unsigned width, unsigned height, unsigned align, uint8_t* data);
int aom_codec_encode(void* context, void* image, int64_t pts, unsigned long duration, long flags);
Packet* aom_codec_get_cx_data(void* context, void** iterator);
uint8_t* aom_codec_get_preview_frame(void* context);
int aom_codec_destroy(void* context);
""")

# Places in the configuration, in bytes.
_FIELDS = {
    "threads": (4, "I"),
    "width": (12, "I"),
    "height": (16, "I"),
    "bit_depth": (32, "I"),
    "input_bit_depth": (36, "I"),
    "timebase_num": (40, "I"),
    "timebase_den": (44, "I"),
    "which_pass": (52, "I"),
    "lag_in_frames": (56, "I"),
    "rate_control": (96, "I"),
    "statistics": (104, "Q"),
    "statistics_bytes": (112, "Q"),
    "target_kbps": (136, "I"),
    "buf-sz": (156, "I"),
    "buf-initial-sz": (160, "I"),
    "buf-optimal-sz": (164, "I"),
    "kf_max_dist": (192, "I"),
}
BUFFER_FIELDS = ("buf-sz", "buf-initial-sz", "buf-optimal-sz")
"""Milliseconds of cbr's buffer, by the names of aomenc's options, which `aom_codec_set_option` does not know."""

_PLANES_AT, _STRIDES_AT = 64, 88
_WHEELS = {"cv2": "opencv_python_headless.libs"}


@dataclass(frozen=True)
class AomLibrary:
    lib: Any
    path: str
    version: str


@cache
def load() -> AomLibrary:
    """The library, loaded once; EncoderMissing when it cannot be used."""
    path = str(find_library("REELRL_AOM_LIB", _WHEELS, "libaom*.so*"))
    try:
        lib = ffi.dlopen(path)
        version = ffi.string(lib.aom_codec_version_str()).decode()
        check_version(version)
        _ = lib.aom_codec_av1_cx, lib.aom_codec_get_preview_frame, lib.aom_codec_control
        return AomLibrary(lib, path, version)
    except (OSError, AttributeError) as error:
        raise EncoderMissing(f"{path} is no usable libaom: {error}; reinstall opencv-python-headless") from error


def check_version(version: str) -> None:
    """Refuse versions without external rate control per superblock, or with another layout."""
    if parse_version(version)[:2] != (3, 14):
        raise EncoderMissing(f"libaom {version} found, 3.14 needed; run: pip install 'opencv-python-headless>=4.14,<6'")


def configuration(lib: Any, usage: int = GOOD_QUALITY, **values: int) -> NDArray[np.uint8]:
    """The library's default configuration with some fields changed."""
    config = np.zeros(CONFIG_BYTES, np.uint8)
    if lib.aom_codec_enc_config_default(lib.aom_codec_av1_cx(), ffi.from_buffer(config), usage):
        raise EncoderMissing("libaom gives no default configuration; its layout is not one we know")
    for name, value in values.items():
        at, form = _FIELDS[name]
        config[at : at + struct.calcsize(form)] = np.frombuffer(struct.pack(form, value), np.uint8)
    return config


def image_planes(image: Any, width: int, height: int, depth: int) -> list[Plane]:
    """Views of an I420 image's planes, valid until the next call into the library."""
    starts, strides = ffi.cast("uint8_t**", image + _PLANES_AT), ffi.cast("int*", image + _STRIDES_AT)
    planes: list[Plane] = []
    sample = np.dtype(np.uint8 if depth == 8 else np.uint16)
    for i, (w, h) in enumerate(((width, height), (width // 2, height // 2), (width // 2, height // 2))):
        rows = np.frombuffer(ffi.buffer(starts[i], strides[i] * h), sample)
        planes.append(rows.reshape(h, strides[i] // sample.itemsize)[:, :w])
    return planes
