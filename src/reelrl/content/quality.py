"""How close pictures are: PSNR, SSIM, and VMAF where an ffmpeg with libvmaf is at hand."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
import threading
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reelrl.errors import ConfigError, ContentError, MissingExtra, ReelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from reelrl.content.frame import Frame, Plane

PSNR_CAP_DB = 100.0
"""Identical planes get this instead of infinity."""

SSIM_WINDOW = 11
SSIM_SIGMA = 1.5
VMAF_DEADLINE_S = 600.0


class PlaneScores(NamedTuple):
    """One figure for each plane."""

    y: float
    u: float
    v: float


class PlaneErrors(NamedTuple):
    """Sum of squared errors of each plane."""

    y: int
    u: int
    v: int


def peak(depth: int) -> int:
    """The largest sample of so many bits: 255 or 1023."""
    return (1 << depth) - 1


def sse(a: Plane, b: Plane) -> int:
    """Sum of squared differences of two planes, exact."""
    import cv2

    _check_alike(a, b)
    return round(cv2.norm(a, b, cv2.NORM_L2SQR))


def frame_sse(a: Frame, b: Frame) -> PlaneErrors:
    return PlaneErrors(sse(a.y, b.y), sse(a.u, b.u), sse(a.v, b.v))


def psnr_from_sse(error: float, samples: int, cap_db: float = PSNR_CAP_DB, *, depth: int = 8) -> float:
    """PSNR in dB of samples of `depth` bits, at most `cap_db`."""
    if error <= 0:
        return cap_db
    return min(cap_db, 10 * math.log10(peak(depth) ** 2 * samples / error))


def sse_in_8_bits(error: int, depth: int) -> int:
    """A squared error in 8-bit levels: where only those are known, it gives the same PSNR."""
    return error if depth == 8 else round(error * (peak(8) / peak(depth)) ** 2)


def psnr(a: Frame, b: Frame, cap_db: float = PSNR_CAP_DB) -> PlaneScores:
    """PSNR in dB of each plane of one frame."""
    errors = frame_sse(a, b)
    samples = a.width * a.height
    return PlaneScores(
        psnr_from_sse(errors.y, samples, cap_db, depth=a.depth),
        psnr_from_sse(errors.u, samples // 4, cap_db, depth=a.depth),
        psnr_from_sse(errors.v, samples // 4, cap_db, depth=a.depth),
    )


def psnr_of_mean_mse(
    frame_errors: Sequence[float], samples: int, cap_db: float = PSNR_CAP_DB, *, depth: int = 8
) -> float:
    """PSNR of a clip as one signal: the squared errors of all frames are averaged first. Bad frames weigh more."""
    _check_some(len(frame_errors))
    return psnr_from_sse(sum(frame_errors), samples * len(frame_errors), cap_db, depth=depth)


def mean_of_frame_psnr(frame_errors: Sequence[float], samples: int, cap_db: float = PSNR_CAP_DB) -> float:
    """Average of the frames' PSNRs, as encoders report it. Never below `psnr_of_mean_mse`, up to the cap."""
    _check_some(len(frame_errors))
    return sum(psnr_from_sse(error, samples, cap_db) for error in frame_errors) / len(frame_errors)


def ssim(a: Frame, b: Frame) -> PlaneScores:
    """Structural similarity of each plane, 1 for equal ones."""
    return PlaneScores(plane_ssim(a.y, b.y), plane_ssim(a.u, b.u), plane_ssim(a.v, b.v))


def plane_ssim(a: Plane, b: Plane) -> float:
    """SSIM by Wang et al. (2004): Gaussian window of 11x11, sigma 1.5, averaged where the window fits."""
    import cv2

    _check_alike(a, b)
    if min(a.shape) < SSIM_WINDOW:
        raise ConfigError(f"a plane is {a.shape[1]}x{a.shape[0]}; SSIM needs at least {SSIM_WINDOW}x{SSIM_WINDOW}")
    kernel, edge = _gaussian(), SSIM_WINDOW // 2

    def blur(plane: NDArray[np.float64]) -> NDArray[np.float64]:
        blurred: NDArray[np.float64] = cv2.sepFilter2D(plane, cv2.CV_64F, kernel, kernel)[edge:-edge, edge:-edge]
        return blurred

    x, y = a.astype(np.float64), b.astype(np.float64)
    mean_x, mean_y = blur(x), blur(y)
    mean_xx, mean_yy, mean_xy = mean_x * mean_x, mean_y * mean_y, mean_x * mean_y
    variances = blur(x * x + y * y) - mean_xx - mean_yy
    covariance = blur(x * y) - mean_xy
    largest = peak(8 if a.itemsize == 1 else 10)
    c1, c2 = (0.01 * largest) ** 2, (0.03 * largest) ** 2
    similarity = (2 * mean_xy + c1) * (2 * covariance + c2) / ((mean_xx + mean_yy + c1) * (variances + c2))
    return float(similarity.mean())


def vmaf(
    reference: Iterable[Frame], distorted: Iterable[Frame], deadline_s: float = VMAF_DEADLINE_S, *, every: int = 1
) -> list[float]:
    """VMAF of each frame, 0 to 100, by the ffmpeg that comes with imageio-ffmpeg (extra `vmaf`); 7 ms a CIF frame.

    Both must have as many frames, all of one size and depth. The model is the ffmpeg's own, v0.6.1. With `every`, only
    frames 0, every, 2 * every ... are scored; motion is still that from frame to frame, so their scores are the same.
    """
    ffmpeg = vmaf_program()
    pairs = _stacked(reference, distorted)
    try:
        (width, height, depth), first = next(pairs)
    except StopIteration:
        raise ConfigError("no frames to compare; pass at least one") from None
    with tempfile.TemporaryDirectory(prefix="reelrl-vmaf-") as folder:
        command = [ffmpeg, *_vmaf_arguments(width, height, depth, every)]
        _feed(command, Path(folder), chain([first], (data for _, data in pairs)), deadline_s)
        return _read_scores(Path(folder))


def vmaf_at(numbers: Sequence[int], reference: Sequence[Frame], distorted: Sequence[Frame]) -> list[float]:
    """VMAF of these frames alone, as `vmaf` of all would give it: each is shown between its neighbours.

    VMAF looks at a frame, and at how far the reference moves from the frame before it and to the one after. So three
    pictures are sent for a score and one is scored, where all would be: a sixth of the frames costs a fourth.
    """
    if not numbers:
        raise ConfigError("no frames to compare; pass at least one")
    last = len(reference) - 1
    order = [0, 0]  # every third is scored: these two move the frames that are asked for to places 3, 6, 9 ...
    for number in numbers:
        if not 0 < number < last:
            raise ConfigError(f"frame {number} of {last + 1} has no neighbour on both sides; score another")
        order += [number - 1, number, number + 1]
    return vmaf((reference[n] for n in order), (distorted[n] for n in order), every=3)[1:]


def vmaf_program() -> str:
    """The ffmpeg that can compute VMAF."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtra("imageio-ffmpeg", "vmaf") from error
    try:
        program = str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise MissingExtra("an ffmpeg program for imageio-ffmpeg", "vmaf") from error
    if not _has_libvmaf(program):
        raise ContentError(
            f"{program} was built without libvmaf; unset IMAGEIO_FFMPEG_EXE or run: pip install 'reelrl[vmaf]'"
        )
    return program


def vmaf_facts() -> dict[str, str]:
    """Which program scores VMAF on this machine: another one may give other figures."""
    try:
        answer = subprocess.run([vmaf_program(), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (MissingExtra, ContentError, OSError, subprocess.TimeoutExpired):
        return {"vmaf": "missing"}
    return {"vmaf": " ".join(answer.stdout.split()[:3])}


@cache
def _has_libvmaf(program: str) -> bool:
    try:
        listed = subprocess.run([program, "-hide_banner", "-filters"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b" libvmaf " in listed.stdout


def _vmaf_arguments(width: int, height: int, depth: int, every: int) -> list[str]:
    """Arguments that read pairs of pictures from stdin, one above the other, and score the lower by the upper one."""
    graph = (
        f"split[a][b];[a]crop={width}:{height}:0:{height}[distorted];[b]crop={width}:{height}:0:0[reference];"
        "[distorted][reference]libvmaf=log_fmt=json:log_path=scores.json:"
        f"n_subsample={every}"
    )
    form = "yuv420p" if depth == 8 else "yuv420p10le"
    source = ["-f", "rawvideo", "-pix_fmt", form, "-s", f"{width}x{2 * height}", "-r", "30", "-i", "pipe:0"]
    # One thread each: starting more takes as long as a few scores.
    alone = ["-threads", "1", "-filter_complex_threads", "1"]
    return ["-hide_banner", "-loglevel", "error", "-nostdin", *alone, *source, "-lavfi", graph, "-f", "null", "-"]


def _stacked(reference: Iterable[Frame], distorted: Iterable[Frame]) -> Iterator[tuple[tuple[int, int, int], bytes]]:
    """(width, height, depth), and bytes of an I420 picture with the reference above the distorted frame."""
    first = None
    try:
        for upper, lower in zip(reference, distorted, strict=True):
            first = first or upper
            for frame in (upper, lower):
                if (frame.width, frame.height) != (first.width, first.height):
                    raise ConfigError(
                        f"frames differ in size: {first.width}x{first.height} and {frame.width}x{frame.height}"
                    )
                if frame.depth != first.depth:
                    raise _differ_in_depth(first.depth, frame.depth)
            planes = zip(upper.planes, lower.planes, strict=True)
            yield (
                (first.width, first.height, first.depth),
                b"".join(plane.tobytes() for pair in planes for plane in pair),
            )
    except ValueError as error:
        if isinstance(error, ReelError):
            raise
        raise ConfigError("the clips differ in length; compare as many frames of both") from error


def _feed(command: list[str], folder: Path, pictures: Iterable[bytes], deadline_s: float) -> None:
    """Run ffmpeg over the pictures in `folder`; an error or the deadline ends it and says why."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log)
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    clock = threading.Timer(deadline_s, stop)
    clock.start()
    try:
        with suppress(BrokenPipeError), process:
            for picture in pictures:
                process.stdin.write(picture)  # type: ignore[union-attr]
    finally:
        clock.cancel()
        process.kill()
        process.wait()
    if late.is_set():
        raise ContentError(f"VMAF took longer than {deadline_s:g} s; raise deadline_s or compare fewer frames")
    if process.returncode:
        words = (folder / "log").read_text(errors="replace").strip()[-500:]
        raise ContentError(
            f"ffmpeg failed with status {process.returncode} while computing VMAF: {words or 'no output'}"
        )


def _read_scores(folder: Path) -> list[float]:
    try:
        frames = json.loads((folder / "scores.json").read_bytes())["frames"]
        # Of the frames between those that were asked for, the log has the motion alone.
        return [float(frame["metrics"]["vmaf"]) for frame in frames if "vmaf" in frame["metrics"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ContentError(f"ffmpeg wrote no VMAF scores ({error}); is its libvmaf complete?") from error


@cache
def _gaussian() -> NDArray[np.float64]:
    """Weights of the SSIM window along one axis."""
    x = np.arange(SSIM_WINDOW) - SSIM_WINDOW // 2
    weights = np.exp(-(x**2) / (2 * SSIM_SIGMA**2))
    normalised: NDArray[np.float64] = weights / weights.sum()
    return normalised


def _check_some(count: int) -> None:
    if not count:
        raise ConfigError("no frames to compare; pass at least one")


def _check_alike(a: Plane, b: Plane) -> None:
    if a.shape != b.shape:
        (rows, columns), (other_rows, other_columns) = a.shape, b.shape
        raise ConfigError(
            f"planes differ in size: {columns}x{rows} and {other_columns}x{other_rows}; compare pictures of one size"
        )
    if a.itemsize != b.itemsize:
        raise _differ_in_depth(8 * a.itemsize, 8 * b.itemsize)


def _differ_in_depth(one: int, other: int) -> ConfigError:
    return ConfigError(
        f"pictures differ in depth: {min(one, 10)} and {min(other, 10)} bits; compare at one: frame.at_depth(10)"
    )
