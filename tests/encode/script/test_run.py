"""run() and register_callbacks(): the shape scripts know, on real encodes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.content.read.video import VideoReader
from reelrl.content.write.video import write_video
from reelrl.encode import EncoderSettings, FrameType, encode_clip
from reelrl.encode.script.flags import parse, spelled
from reelrl.encode.script.run import Script, register_callbacks, run
from reelrl.errors import ConfigError, ContentError, EncoderError
from tests.encode.makers import scene, thread_count, threads_fall_to

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reelrl.encode.codecs.whole_clip import Decision

FRAMES, SUPERBLOCKS = 12, 4
LOW_DELAY: dict[str, Any] = {"pred_struct": 1, "rc": 0, "qp": 40, "preset": 10, "lp": 1}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A clip on disk: 128x96, 30 frames/s."""
    file = tmp_path / "clip.y4m"
    write_video(file, scene("street", FRAMES))
    return str(file)


def offsets(superblocks: list[dict[str, int]], frame_type: FrameType, picture_number: int) -> list[int]:
    return [-2, 0, 1, 3]


# -- callbacks ---------------------------------------------------------------------------------------------------


def test_a_run_without_callbacks_is_a_plain_encode(path: str, tmp_path: Path) -> None:
    out = tmp_path / "out.ivf"
    summary = Script().run(input=path, output=str(out), **LOW_DELAY)
    plain = encode_clip(scene("street", FRAMES), EncoderSettings(qp=40, preset=10))
    assert (summary.frames, summary.size_bytes) == (FRAMES, plain.size_bytes)
    assert summary.kbps == pytest.approx(plain.kbps)
    assert summary.psnr_y == pytest.approx(plain.psnr_y)
    assert list(VideoReader(out)) == [packet.recon for packet in plain.packets]


@pytest.mark.slow
def test_offsets_of_the_callback_are_those_of_the_stream(path: str) -> None:
    script = Script()
    script.register_callbacks(get_deltaq_offset=offsets)
    summary = script.run(input=path, **LOW_DELAY)
    decision: Decision = {"offsets": [-2, 0, 1, 3]}
    same = encode_clip(scene("street", FRAMES), EncoderSettings(qp=40, preset=10), lambda *_: decision)
    assert summary.size_bytes == same.size_bytes


def test_the_callback_is_told_of_every_superblock_in_order(path: str) -> None:
    asked: list[tuple[list[dict[str, int]], FrameType, int]] = []

    def ask(superblocks: list[dict[str, int]], frame_type: FrameType, picture_number: int) -> list[int]:
        asked.append((superblocks, frame_type, picture_number))
        return [0] * len(superblocks)

    script = Script()
    script.register_callbacks(get_deltaq_offset=ask)
    script.run(input=path, **LOW_DELAY, keyint=6)
    assert [number for _, _, number in asked] == list(range(FRAMES))
    assert [kind for _, kind, _ in asked] == [FrameType.KEY if n % 6 == 0 else FrameType.INTER for n in range(FRAMES)]
    places = [(b["sb_org_x"], b["sb_org_y"], b["sb_width"], b["sb_height"]) for b in asked[3][0]]
    assert places == [(0, 0, 64, 64), (64, 0, 64, 64), (0, 64, 64, 32), (64, 64, 64, 32)]
    assert {b["sb_qindex"] for blocks, _, _ in asked for b in blocks} == {160}
    assert all(
        set(block) == {"sb_org_x", "sb_org_y", "sb_width", "sb_height", "sb_qindex", "sb_x_mv", "sb_y_mv"}
        and all(type(value) is int for value in block.values())
        for blocks, _, _ in asked
        for block in blocks
    )


@pytest.mark.parametrize("backend", ["svtav1", "aom"])
def test_all_zero_offsets_send_no_map(path: str, backend: str) -> None:
    script = Script()
    plain = script.run(input=path, backend=backend, **LOW_DELAY)
    script.register_callbacks(get_deltaq_offset=lambda superblocks, kind, number: [0] * len(superblocks))
    assert script.run(input=path, backend=backend, **LOW_DELAY) == plain


@pytest.mark.parametrize("structure", [1, 2])
def test_feedback_hands_over_the_whole_stream_in_order(path: str, structure: int) -> None:
    told: list[tuple[bytes, int, int]] = []
    script = Script()
    script.register_callbacks(picture_feedback=lambda bitstream, size, number: told.append((bitstream, size, number)))
    summary = script.run(input=path, **LOW_DELAY | {"pred_struct": structure})
    assert [number for _, _, number in told] == list(range(FRAMES))
    assert all(len(data) == size for data, size, _ in told)
    assert sum(size for _, size, _ in told) == summary.size_bytes


def test_none_unsets_a_callback_and_leaving_it_out_keeps_it(path: str) -> None:
    told: list[int] = []
    script = Script()
    plain = script.run(input=path, **LOW_DELAY)
    script.register_callbacks(
        get_deltaq_offset=offsets, picture_feedback=lambda data, size, number: told.append(number)
    )
    moved = script.run(input=path, **LOW_DELAY)
    script.register_callbacks(picture_feedback=None)
    assert script.run(input=path, **LOW_DELAY) == moved != plain
    assert len(told) == FRAMES
    script.register_callbacks(get_deltaq_offset=None)
    assert script.run(input=path, **LOW_DELAY) == plain


def test_callbacks_belong_to_the_thread_that_registered_them(path: str) -> None:
    sizes: dict[str, int] = {}

    def work(name: str, callback: Callable[..., Any] | None) -> None:
        register_callbacks(get_deltaq_offset=callback)
        sizes[name] = run(input=path, **LOW_DELAY).size_bytes

    register_callbacks(get_deltaq_offset=offsets)
    threads = [
        threading.Thread(target=work, args=("none", None)),
        threading.Thread(target=work, args=("some", offsets)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    here = run(input=path, **LOW_DELAY).size_bytes
    register_callbacks(get_deltaq_offset=None)
    assert here == sizes["some"] != sizes["none"]


# -- callbacks that are wrong ------------------------------------------------------------------------------------


def two(superblocks: Any, frame_type: Any) -> list[int]:
    return []


def four(a: Any, b: Any, c: Any, d: Any) -> list[int]:
    return []


def keyword_only(a: Any, b: Any, c: Any, *, d: Any) -> list[int]:
    return []


def loose(*args: Any) -> list[int]:
    return []


def looser(a: Any, b: Any, c: Any, **kwargs: Any) -> list[int]:
    return []


@pytest.mark.parametrize("name", ["get_deltaq_offset", "picture_feedback"])
@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (two, r"\(superblocks.*\) .*cannot take three arguments; it is called with \("),
        (four, "cannot take three arguments"),
        (keyword_only, "cannot take three arguments"),
        (loose, r"takes any arguments; name them: \("),
        (looser, "takes any arguments; name them"),
        (42, r"is a int; pass a function of \(.*\), or None"),
        ([], "is a list; pass a function"),
    ],
)
def test_callbacks_of_the_wrong_shape_are_refused_and_the_old_ones_stay(
    path: str, name: str, callback: Any, message: str
) -> None:
    script = Script()
    script.register_callbacks(get_deltaq_offset=offsets)
    before = script.run(input=path, **LOW_DELAY)
    with pytest.raises(
        ConfigError, match=f"{name}.*{message}" if callback is not two else f"{name}.*cannot take three"
    ):
        script.register_callbacks(**{name: callback})
    assert script.run(input=path, **LOW_DELAY) == before


def test_methods_partials_and_callable_objects_are_fine(path: str) -> None:
    from functools import partial

    class Policy:
        def __call__(self, superblocks: Any, frame_type: Any, picture_number: Any) -> list[int]:
            return [1] * len(superblocks)

        def decide(self, superblocks: Any, frame_type: Any, picture_number: Any, scale: int = 1) -> list[int]:
            return [scale] * len(superblocks)

    sizes = set()
    for callback in (Policy(), Policy().decide, partial(Policy().decide, scale=1)):
        script = Script()
        script.register_callbacks(get_deltaq_offset=callback)
        sizes.add(script.run(input=path, **LOW_DELAY).size_bytes)
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "get_deltaq_offset returned NoneType for picture 0; return 4 whole numbers"),
        (3, "returned int for picture 0"),
        ("0000", "returned str for picture 0"),
        ([0, 1, 2], "returned 3 offsets for picture 0, which has 4 superblocks"),
        ([], "returned 0 offsets for picture 0"),
        ([0, 0, 0, 9], "offset of superblock 3 is 9; the range is -3 to 3"),
        ([0.5, 0, 0, 0], "offsets are float64"),
        ([0, 0, 0, float("nan")], "offset of superblock 3 is nan"),
        ([[1], [2, 3], [4], [5]], "offsets are no array|no array"),
        ([None, 1, 1, 1], "offsets are object"),
        ({0: 1, 1: 1, 2: 1, 3: 1}, "returned dict for picture 0"),
        ({0, 1, 2, 3}, "returned set for picture 0"),
    ],
)
def test_a_callback_that_returns_the_wrong_thing_is_told_so(
    path: str, tmp_path: Path, returned: Any, message: str
) -> None:
    threads = thread_count()
    script = Script()
    script.register_callbacks(get_deltaq_offset=lambda superblocks, kind, number: returned)
    out = tmp_path / "out.ivf"
    out.write_text("precious")
    with pytest.raises(ConfigError, match=message):
        script.run(input=path, output=str(out), **LOW_DELAY)
    assert out.read_text() == "precious", "a failed run leaves what was there"
    assert threads_fall_to(threads)


@pytest.mark.parametrize("which", ["get_deltaq_offset", "picture_feedback"])
def test_an_error_in_a_callback_ends_the_run_as_it_is(path: str, tmp_path: Path, which: str) -> None:
    threads = thread_count()

    def fail(first: Any, second: Any, number: Any) -> Sequence[int]:
        raise LookupError("the policy is out")

    script = Script()
    script.register_callbacks(**{which: fail})
    out = tmp_path / "out.ivf"
    with pytest.raises(LookupError, match="the policy is out"):
        script.run(input=path, output=str(out), **LOW_DELAY)
    assert not out.exists()
    assert threads_fall_to(threads)


# -- a bitrate with offsets --------------------------------------------------------------------------------------


def test_a_bitrate_with_offsets_is_held_by_our_own_loop_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "long.y4m"
    write_video(file, scene("street", 90, (176, 144)))
    script = Script()
    script.register_callbacks(get_deltaq_offset=lambda superblocks, kind, number: [-1, 0, 1, 0, 0, 0, 1, 0, -1])
    with pytest.warns(UserWarning, match="the encoder would ignore the offsets, so 100 kbit/s is held by reelrl's own"):
        summary = script.run(input=str(file), pred_struct=1, rc=2, tbr=100, preset=10)
    assert 65 < summary.kbps < 150


def test_without_offsets_the_encoders_own_rate_control_is_used(tmp_path: Path) -> None:
    file = tmp_path / "long.y4m"
    write_video(file, scene("street", 90, (176, 144)))
    summary = Script().run(input=str(file), pred_struct=1, rc=2, tbr=100, preset=10)
    same = encode_clip(
        scene("street", 90, (176, 144)), EncoderSettings(rate_control="cbr", target_kbps=100.0, preset=10, recon=False)
    )
    assert summary.size_bytes == same.size_bytes


def test_a_bitrate_with_offsets_in_random_access_is_refused(path: str) -> None:
    script = Script()
    script.register_callbacks(get_deltaq_offset=offsets)
    with pytest.raises(ConfigError, match="our own rate loop needs low delay: set pred_struct=1"):
        script.run(input=path, pred_struct=2, rc=1, tbr=100, keyint=30)


# -- flags -------------------------------------------------------------------------------------------------------


def test_flags_are_spelled_like_the_command_line() -> None:
    given = {"input": "a.y4m", "pred_struct": 1, "q": 30, "enable_tf": False, "-b": "out.ivf", "--lp": 2, "scm": True}
    assert spelled(given) == [
        ("--input", "a.y4m"),
        ("--pred-struct", "1"),
        ("-q", "30"),
        ("--enable-tf", "0"),
        ("-b", "out.ivf"),
        ("--lp", "2"),
        ("--scm", "1"),
    ]


def test_flags_become_settings() -> None:
    job = parse({"i": "a.yuv", "w": 176, "h": 144, "fps": "30000/1001", "n": 9, "q": 30, "pred_struct": 1, "preset": 8})
    assert (job.input, job.size, job.frames) == ("a.yuv", (176, 144), 9)
    assert job.fps is not None
    assert float(job.fps) == pytest.approx(29.97, abs=0.01)
    assert (job.settings.qp, job.settings.preset, job.settings.structure) == (30, 8, "low_delay")
    assert job.settings.rate_control == "cqp"
    assert parse({"i": "a", "crf": 33}).settings.rate_control == "crf"
    assert parse({"i": "a", "rc": 2, "tbr": 100, "pred_struct": 1}).settings.target_kbps == 100
    assert parse({"i": "a", "enable_cdef": 0}).settings.options == {"enable-cdef": "0"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, r"no input was given; name a clip: run\(input="),
        ({"input": "a", "pred_struct": 3}, "pred-struct = 3; use 1 for low delay, 2 for random access"),
        ({"input": "a", "rc": 5}, "rc = 5; use 0 for a fixed quality"),
        ({"input": "a", "rc": 2, "tbr": "fast"}, "tbr = fast; give the target bitrate in kbit/s"),
        ({"input": "a", "rc": 2}, "rate_control = cbr with target_kbps = None; set it"),
        ({"input": "a", "qp": "fine"}, "qp = fine; give a whole number"),
        ({"input": "a", "qp": 99}, "qp = 99; use 1 to 63"),
        ({"input": "a", "width": 64}, "width = 64, height = None; give both or neither"),
        ({"input": "a", "fps": "0/0"}, "fps = 0/0; give a number"),
        ({"input": "a", "backend": "x265"}, "unknown backend 'x265'"),
    ],
)
def test_flags_that_cannot_be_right_are_refused(path: str, flags: dict[str, Any], message: str) -> None:
    if flags.get("backend"):
        flags = {"backend": flags["backend"], "input": path}
    with pytest.raises(ConfigError, match=message):
        Script().run(**flags)


def test_flags_the_encoder_refuses_raise(path: str) -> None:
    with pytest.raises(EncoderError, match="SVT-AV1 refuses no-such-flag = '1'"):
        Script().run(input=path, no_such_flag=True, **LOW_DELAY)


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=r"gone\.y4m"):
        Script().run(input=str(tmp_path / "gone.y4m"), **LOW_DELAY)


def test_an_output_that_cannot_be_written_is_named(path: str, tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="cannot write"):
        Script().run(input=path, output=str(tmp_path / "no" / "such" / "out.ivf"), **LOW_DELAY)
