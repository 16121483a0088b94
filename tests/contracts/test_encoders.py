"""What every encoder promises, in every prediction structure it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reelrl.content.catalogue import catalogue
from reelrl.content.generated.clips import STYLES
from reelrl.content.write.video import write_bitstream
from reelrl.encode import EncoderSession, EncoderSettings, FrameType, WorkerSession, capabilities, encode_clip
from reelrl.encode.codecs.block_ssim import picture_ssim
from reelrl.encode.codecs.decoding import decode
from reelrl.errors import ConfigError
from tests.encode.makers import (
    BACKENDS,
    STRUCTURES,
    SUPERBLOCKS,
    bytes_of,
    coded,
    deep_scene,
    quantisers,
    random_decisions,
    scene,
    settings_for,
    squared_error,
)

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.content.clip import Clip
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.whole_clip import Decision

each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_structure = pytest.mark.parametrize(("backend", "structure"), STRUCTURES)

SIZES = [(64, 64), (66, 50), (130, 98), (200, 72)]
"""One superblock exactly, less than one, a sliver in the last row and column, several with a part at the edge."""


def check_stream(clip: Clip, packets: list[Packet]) -> None:
    """Packets say the truth about what a decoder shows."""
    assert [packet.number for packet in packets] == list(range(clip.frame_count))
    shown = decode([packet.data for packet in packets])
    assert len(shown) == clip.frame_count
    for frame, picture, packet in zip(clip, shown, packets, strict=True):
        assert packet.recon == picture, f"frame {packet.number}"
        planes = zip(frame.planes, picture.planes, strict=True)
        assert packet.sse == tuple(squared_error(source, plane) for source, plane in planes), f"frame {packet.number}"
        assert packet.size == len(packet.data) > 0


def check_random_actions(clip: Clip, backend: str, structure: str) -> None:
    decisions = random_decisions(clip.frame_count, clip.superblock_count, seed=clip.width)
    packets = coded(clip, settings_for(clip, backend, structure, picture_qp=True), lambda number: decisions[number])
    check_stream(clip, packets)
    assert [packet.qp for packet in packets] == [decision["qp"] for decision in decisions]


@each_structure
@pytest.mark.parametrize("style", STYLES)
def test_reconstruction_is_what_dav1d_decodes_under_random_actions(backend: str, structure: str, style: str) -> None:
    check_random_actions(scene(style, 10), backend, structure)


@each_structure
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_reconstruction_is_what_dav1d_decodes_at_any_size(backend: str, structure: str, size: tuple[int, int]) -> None:
    check_random_actions(scene("street", 6, size), backend, structure)


CLIPS = [entry.clip for entry in catalogue() if not entry.clip.name.startswith("generated:")]
"""Games always, and what `REELRL_DATA` adds."""


@pytest.mark.slow
@each_structure
@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)
def test_reconstruction_is_what_dav1d_decodes_of_every_clip(backend: str, structure: str, clip: Clip) -> None:
    check_random_actions(clip.window(0, min(6, clip.frame_count)).load(), backend, structure)


@each_structure
@pytest.mark.parametrize("preset", [4, 6, 8, 12])
def test_reconstruction_is_what_dav1d_decodes_at_any_preset(backend: str, structure: str, preset: int) -> None:
    clip = scene("talk", 6)
    decisions = random_decisions(6, SUPERBLOCKS, preset)
    settings = settings_for(clip, backend, structure, picture_qp=True, preset=preset)
    check_stream(clip, coded(clip, settings, lambda number: decisions[number]))


@each_structure
@pytest.mark.parametrize("qp", [1, 2, 3, 62, 63])
def test_the_ends_of_the_qp_scale_are_coded_with_the_largest_offsets(backend: str, structure: str, qp: int) -> None:
    clip = scene("street", 5)
    maps = [[-3, 3, 0, -1], [3, 3, 3, 3], [-3, -3, -3, -3], [0, 0, 0, 0], [-3, 3, -3, 3]]
    settings = settings_for(clip, backend, structure, picture_qp=True)
    packets = coded(clip, settings, lambda number: {"qp": qp, "offsets": maps[number]})
    check_stream(clip, packets)
    assert {packet.qp for packet in packets} == {qp}


@each_structure
def test_without_actions_packets_are_true_too(backend: str, structure: str) -> None:
    clip = scene("cuts", 11)
    packets = coded(clip, settings_for(clip, backend, structure))
    check_stream(clip, packets)
    assert packets[0].frame_type is FrameType.KEY
    assert FrameType.KEY not in {packet.frame_type for packet in packets[1:]} or backend == "aom"


@each_structure
def test_key_frames_come_as_often_as_asked(backend: str, structure: str) -> None:
    clip = scene("talk", 17)
    packets = coded(clip, settings_for(clip, backend, structure, keyint=8))
    check_stream(clip, packets)
    assert [packet.number for packet in packets if packet.frame_type is FrameType.KEY] == [0, 8, 16]


@each_structure
@pytest.mark.parametrize("size", [(128, 96), *SIZES], ids=lambda size: f"{size[0]}x{size[1]}")
def test_ssim_is_that_of_the_reconstruction_to_the_last_bit(
    backend: str, structure: str, size: tuple[int, int]
) -> None:
    clip = scene("water", 6, size)
    decisions = random_decisions(6, clip.superblock_count)
    settings = settings_for(clip, backend, structure, picture_qp=True, ssim=True)
    for frame, packet in zip(clip, coded(clip, settings, lambda number: decisions[number]), strict=True):
        assert packet.recon is not None
        measured = picture_ssim(frame.planes, packet.recon.planes)
        # In random access SVT-AV1 fills the last block of pictures that nothing refers to with what it coded there.
        exact = structure == "low_delay" or not (clip.width % 8 or clip.height % 8)
        assert packet.ssim == (measured if exact else pytest.approx(measured, abs=0.002))


@each_structure
@pytest.mark.parametrize("size", [(128, 96), (66, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_in_ten_bits_packets_are_true_too(backend: str, structure: str, size: tuple[int, int]) -> None:
    clip = deep_scene("water", 6, size)
    decisions = random_decisions(6, clip.superblock_count)
    settings = settings_for(clip, backend, structure, picture_qp=True)
    packets = coded(clip, settings, lambda number: decisions[number])
    check_stream(clip, packets)
    assert {packet.recon.depth for packet in packets if packet.recon} == {10}
    pixels = clip.width * clip.height
    for packet in packets:
        assert packet.sse is not None
        assert packet.psnr[0] == pytest.approx(10 * np.log10(1023**2 * pixels / packet.sse[0]))
    eight = coded(clip.at_depth(8), settings_for(clip.at_depth(8), backend, structure, picture_qp=True, qp=20))
    ten = coded(clip, settings_for(clip, backend, structure, picture_qp=True, qp=20))
    assert abs(ten[0].psnr[0] - eight[0].psnr[0]) < 1  # the same scale, whatever the depth


@each_structure
@pytest.mark.parametrize("preset", [4, 8])
def test_in_ten_bits_ssim_is_that_of_the_reconstruction(backend: str, structure: str, preset: int) -> None:
    clip = deep_scene("street", 6)
    settings = settings_for(clip, backend, structure, ssim=True, preset=preset)
    packets = coded(clip, settings)
    check_stream(clip, packets)
    for frame, packet in zip(clip, packets, strict=True):
        assert packet.recon is not None
        assert packet.ssim == picture_ssim(frame.planes, packet.recon.planes)


@each_backend
def test_ten_bits_cross_to_a_worker_and_back(backend: str) -> None:
    clip = deep_scene("street", 3)
    settings = settings_for(clip, backend)
    here, there = coded(clip, settings), coded(clip, settings, kind=WorkerSession)
    assert bytes_of(here) == bytes_of(there)
    assert [packet.recon for packet in here] == [packet.recon for packet in there]


def test_quarter_steps_of_crf_lie_between_whole_ones(tmp_path: Path) -> None:
    clip = scene("street", 9)
    streams, finest = [], []
    for step in range(5):
        settings = settings_for(
            clip, "svtav1", "random_access", rate_control="crf", qp=30 + step // 4, crf_quarters=step % 4
        )
        packets = coded(clip, settings)
        streams.append(bytes_of(packets))
        write_bitstream(tmp_path / "a.ivf", [packet.data for packet in packets], clip.width, clip.height, clip.fps)
        finest.append(quantisers(tmp_path / "a.ivf")[0])
    assert len(set(streams)) == 5
    assert finest == sorted(finest)  # of the key frame, where a step of CRF is two of 256
    assert len(set(finest)) >= 3


def test_quarter_steps_are_refused_where_there_are_none() -> None:
    clip = scene("street", 1)
    with pytest.raises(ConfigError, match=r"crf 30\.25: libaom has whole steps of CRF only; use 30"):
        EncoderSession(settings_for(clip, "aom", rate_control="crf", qp=30, crf_quarters=1))
    for wrong in (
        {"rate_control": "cqp"},
        {"rate_control": "crf", "picture_qp": True},
        {"rate_control": "crf", "qp": 63},
    ):
        with pytest.raises(ConfigError, match="quarter steps are for crf below 63 without picture_qp"):
            settings_for(clip, "svtav1", "random_access", crf_quarters=2, **wrong)


@each_structure
def test_what_is_not_asked_for_is_not_measured(backend: str, structure: str) -> None:
    clip = scene("street", 6)
    bare = coded(clip, settings_for(clip, backend, structure, recon=False))
    full = coded(clip, settings_for(clip, backend, structure, recon=True, ssim=True))
    assert {(packet.recon, packet.ssim) for packet in bare} == {(None, None)}
    assert bytes_of(bare) == bytes_of(full)
    assert [packet.sse for packet in bare] == [packet.sse for packet in full]


@each_structure
def test_same_input_and_settings_give_the_same_bytes(backend: str, structure: str) -> None:
    clip = scene("street", 10)
    decisions = random_decisions(10, SUPERBLOCKS)
    settings = settings_for(clip, backend, structure, picture_qp=True)
    streams = {bytes_of(coded(clip, settings, lambda number: decisions[number])) for _ in range(3)}
    assert len(streams) == 1


@each_backend
def test_the_number_of_threads_does_not_matter_from_two_on(backend: str) -> None:
    clip = scene("street", 10)
    decisions = random_decisions(10, SUPERBLOCKS)
    one, two, again, four = (
        bytes_of(coded(clip, settings_for(clip, backend, picture_qp=True, threads=n), lambda number: decisions[number]))
        for n in (1, 2, 2, 4)
    )
    assert two == again == four
    # libaom takes other decisions when its rows are shared out between threads.
    assert (one == two) == (backend == "svtav1")


@each_structure
def test_a_frame_may_be_overwritten_as_soon_as_it_is_sent(backend: str, structure: str) -> None:
    clip = scene("street", 10)
    settings = settings_for(clip, backend, structure)
    expected = bytes_of(coded(clip, settings))
    buffer = next(iter(clip)).__class__.empty(clip.width, clip.height)
    packets = []
    with EncoderSession(settings) as session:
        for frame in clip:
            buffer.data[:] = frame.data
            session.send(buffer)
            buffer.data[:] = 0
            packets += session.receive()
        packets += session.flush()
    assert bytes_of(packets) == expected


# -- actions -----------------------------------------------------------------------------------------------------


@each_structure
def test_offsets_move_quality_where_they_are_and_as_they_are_signed(backend: str, structure: str) -> None:
    clip = scene("street", 8, (256, 128))
    left_finer, right_finer = np.array([-3, -3, 3, 3] * 2), np.array([3, 3, -3, -3] * 2)
    settings = settings_for(clip, backend, structure, qp=36)

    def errors(offsets: np.ndarray) -> tuple[int, int]:
        packets = coded(clip, settings, lambda _: {"offsets": offsets})
        left = right = 0
        for frame, packet in zip(clip, packets, strict=True):
            assert packet.recon is not None
            left += squared_error(frame.y[:, :128], packet.recon.y[:, :128])
            right += squared_error(frame.y[:, 128:], packet.recon.y[:, 128:])
        return left, right

    (left_fine, right_coarse), (left_coarse, right_fine) = errors(left_finer), errors(right_finer)
    assert left_fine < left_coarse
    assert right_fine < right_coarse


@each_structure
@pytest.mark.parametrize("offset", [-3, 3])
def test_a_uniform_map_changes_size_and_quality_as_it_is_signed(backend: str, structure: str, offset: int) -> None:
    clip = scene("street", 8)
    settings = settings_for(clip, backend, structure, qp=36)
    plain = coded(clip, settings)
    moved = coded(clip, settings, lambda _: {"offsets": [offset] * SUPERBLOCKS})
    error, moved_error = (sum(p.sse[0] for p in packets if p.sse) for packets in (plain, moved))
    assert (moved_error > error) == (offset > 0)
    assert (len(bytes_of(moved)) < len(bytes_of(plain))) == (offset > 0)


def test_on_aom_a_zero_map_is_no_map() -> None:
    clip = scene("street", 8)
    settings = settings_for(clip, "aom")
    assert coded_bytes(clip, settings, [0] * SUPERBLOCKS) == coded_bytes(clip, settings, None)


@pytest.mark.parametrize("structure", ["low_delay", "random_access"])
def test_on_svtav1_a_zero_map_costs_bytes(structure: str) -> None:
    clip = scene("street", 8)
    settings = settings_for(clip, "svtav1", structure)
    zero, none = coded_bytes(clip, settings, [0] * SUPERBLOCKS), coded_bytes(clip, settings, None)
    assert 0 < len(zero) - len(none) < 20 * clip.frame_count


def coded_bytes(clip: Clip, settings: object, offsets: list[int] | None) -> bytes:
    return bytes_of(coded(clip, settings, lambda _: {"offsets": offsets}))  # type: ignore[arg-type]


@each_backend
def test_a_map_ends_with_the_frame_it_was_sent_with(backend: str) -> None:
    # The same source picture every time: once the map is gone, the QP of the picture alone decides.
    frame = next(iter(scene("street", 1)))
    settings = settings_for(scene("street", 1), backend, picture_qp=True)

    def sizes(map_at: int | None) -> list[int]:
        def decide(number: int) -> Decision:
            return {"qp": 30, "offsets": [3, -3, 2, -2] if number == map_at else None}

        return [packet.size for packet in coded([frame] * 24, settings, decide)]

    without, with_one = sizes(None), sizes(4)
    assert without[:4] == with_one[:4]
    assert without[4] != with_one[4]
    assert without[-8:] == with_one[-8:]


@pytest.mark.parametrize(("backend", "structure"), STRUCTURES)
def test_sending_none_after_a_map_is_decoded_right(backend: str, structure: str) -> None:
    clip = scene("street", 12)
    rng = np.random.default_rng(3)
    maps = [rng.integers(-3, 4, SUPERBLOCKS) if number % 3 == 0 else None for number in range(12)]
    check_stream(clip, coded(clip, settings_for(clip, backend, structure), lambda number: {"offsets": maps[number]}))


@each_structure
def test_a_lower_picture_qp_is_obeyed_by_that_very_picture(backend: str, structure: str) -> None:
    clip = scene("street", 9)
    settings = settings_for(clip, backend, structure, picture_qp=True)
    plain = coded(clip, settings, lambda _: {"qp": 45})
    finer = coded(clip, settings, lambda number: {"qp": 20 if number == 8 else 45})
    assert [packet.qp for packet in finer] == [45] * 8 + [20]
    assert finer[8].psnr[0] > plain[8].psnr[0] + 1


@each_structure
def test_without_a_qp_the_settings_are_obeyed(backend: str, structure: str) -> None:
    clip = scene("street", 6)
    settings = settings_for(clip, backend, structure, picture_qp=True, qp=33)
    assert {packet.qp for packet in coded(clip, settings)} == {33}


@each_backend
def test_a_new_base_qp_holds_from_its_frame_on(backend: str) -> None:
    clip = scene("street", 12)
    settings = settings_for(clip, backend, qp=30)
    plain = coded(clip, settings)
    moved = coded(clip, settings, lambda number: {"base_qp": 50 if number == 5 else None})
    assert bytes_of(plain[:5]) == bytes_of(moved[:5])
    # SVT-AV1 adds a step of its own to some pictures.
    assert all(abs(packet.qp - 50) <= 2 for packet in moved[6:])
    assert all(abs(packet.qp - 30) <= 2 for packet in plain[6:])
    check_stream(clip, moved)


@each_backend
def test_the_base_may_move_with_every_frame_in_low_delay(backend: str) -> None:
    clip = scene("street", 12)
    packets = coded(clip, settings_for(clip, backend), lambda number: {"base_qp": 20 + 3 * number})
    assert all(abs(packet.qp - 20 - 3 * packet.number) <= 2 for packet in packets[1:])


# -- order and delay ---------------------------------------------------------------------------------------------


@each_backend
def test_low_delay_gives_one_packet_for_each_frame_at_once(backend: str) -> None:
    clip = scene("street", 6)
    with EncoderSession(settings_for(clip, backend)) as session:
        for number, frame in enumerate(clip):
            session.send(frame)
            assert [packet.number for packet in session.receive()] == [number]
            assert session.receive() == []
            assert session.receive(wait_for=number) == []
        assert session.flush() == []


@each_backend
def test_low_delay_codes_in_the_order_of_display(backend: str) -> None:
    packets = coded(scene("street", 6), settings_for(scene("street", 6), backend))
    assert [packet.coding_order for packet in packets] == list(range(6))
    assert [packet.picture_bytes for packet in packets] == [packet.size for packet in packets]


@each_structure
def test_packets_may_be_left_to_pile_up(backend: str, structure: str) -> None:
    clip = scene("street", 12)
    settings = settings_for(clip, backend, structure)
    with EncoderSession(settings) as session:
        for frame in clip:
            session.send(frame)
        packets = session.flush()
    assert bytes_of(packets) == bytes_of(coded(clip, settings))


@each_structure
def test_frames_that_nobody_decides_about_are_coded_in_one_call(backend: str, structure: str) -> None:
    clip = scene("street", 12)
    settings = settings_for(clip, backend, structure)
    with EncoderSession(settings) as session:
        packets = list(session.encode(clip))
    assert bytes_of(packets) == bytes_of(coded(clip, settings))


@each_structure
@pytest.mark.parametrize("frames", [1, 2, 3])
def test_streams_shorter_than_a_mini_gop_are_whole(backend: str, structure: str, frames: int) -> None:
    clip = scene("street", frames)
    check_stream(clip, coded(clip, settings_for(clip, backend, structure)))


@each_structure
def test_a_stream_without_frames_has_no_packets(backend: str, structure: str) -> None:
    with EncoderSession(settings_for(scene("street", 1), backend, structure)) as session:
        assert session.flush() == []
        assert session.flush() == []


@each_structure
def test_capabilities_name_the_library_that_is_used(backend: str, structure: str) -> None:
    found = capabilities(backend)
    assert found.backend == backend
    assert found.library.endswith((".so", *"0123456789"))
    assert found.version[0].isdigit() or found.version[0] == "v"
    assert found.superblock_offsets
    assert found.picture_qp


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_session_that_measures_nothing_gives_the_same_bytes(backend: str) -> None:
    clip = scene("street", 4)
    measured = encode_clip(clip, EncoderSettings(backend=backend))
    bare = encode_clip(clip, EncoderSettings(backend=backend, psnr=False, recon=False))
    assert [packet.data for packet in bare.packets] == [packet.data for packet in measured.packets]
    with pytest.raises(ValueError, match="psnr=True"):
        _ = bare.packets[0].psnr
