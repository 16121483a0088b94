"""What `reel ladder` writes for players, read by parsers and decoders that are not ours."""

from __future__ import annotations

import io
import json
import math
import re
import shutil
import subprocess
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import m3u8
import numpy as np
import pytest
from mpegdash.parser import MPEGDASHParser

from reelrl.content.clip import Clip
from reelrl.content.generated.clips import generated_clip
from reelrl.errors import ContentError
from reelrl.stream.data.ladder_encoding import LadderSettings, encode_ladder
from reelrl.stream.data.packaging import HLS, MANIFEST, segment_name

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.stream.data.ladders import Ladder

pytestmark = pytest.mark.slow

SEGMENT_FRAMES, SEGMENTS = 6, 4
QUICK = LadderSettings(qps=(55, 25), segment_s=1.0, preset=12)


def film(path: Path, codec: str) -> Path:
    """Pictures at 5.994 per second, a little more than four segments of them, and a tone."""
    clip = generated_clip("street", size=(64, 64), frames=SEGMENT_FRAMES * SEGMENTS + 2)
    with av.open(str(path), "w") as target:
        video = target.add_stream("ffv1", rate=Fraction(6000, 1001), width=64, height=64, pix_fmt="yuv420p")
        sound: Any = target.add_stream(codec, rate=48000, layout="stereo")
        for frame in clip:
            target.mux(video.encode(av.VideoFrame.from_ndarray(frame.data.reshape(96, 64), format="yuv420p")))
        target.mux(video.encode(None))
        tone = np.sin(np.arange(220_000) * 0.05).astype(np.float32)
        samples = av.AudioFrame.from_ndarray(np.stack([tone, tone]), format="fltp", layout="stereo")
        samples.sample_rate = 48000
        for part in av.AudioResampler(sound.format, "stereo", 48000, sound.frame_size).resample(samples):
            target.mux(sound.encode(part))
        target.mux(sound.encode(None))
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ladder]:
    folder = tmp_path_factory.mktemp("site")
    return folder, encode_ladder(Clip.open(film(folder / "film.mkv", "aac")), folder, QUICK)


def decoded(folder: Path, rung: int, segment: int) -> list[av.VideoFrame]:
    """The pictures of one segment, without those before it."""
    data = (folder / f"init-stream{rung}.mp4").read_bytes() + (folder / segment_name(rung, segment)).read_bytes()
    with av.open(io.BytesIO(data), "r") as container:
        return list(container.decode(video=0))


def test_an_independent_parser_reads_the_dash_manifest(site: tuple[Path, Ladder]) -> None:
    folder, ladder = site
    manifest = MPEGDASHParser.parse((folder / MANIFEST).read_text())
    (period,) = manifest.periods
    video, sound = period.adaptation_sets
    assert (video.content_type, sound.content_type) == ("video", "audio")
    assert [each.id for each in video.representations] == ["0", "1"]
    assert all(re.fullmatch(r"av01\.0\.\d\dM\.08", each.codecs) for each in video.representations)
    assert sound.representations[0].codecs == "mp4a.40.2"
    assert ladder.sizes_bytes is not None
    for rung, each in enumerate(video.representations):
        (template,) = each.segment_templates
        assert template.duration / template.timescale == pytest.approx(ladder.chunk_s, abs=1e-5)
        length_s = float(manifest.media_presentation_duration[2:-1])
        assert math.ceil(length_s * template.timescale / template.duration) == SEGMENTS  # as players count them
        for segment in range(SEGMENTS):
            number = template.start_number + segment
            name = template.media.replace("$RepresentationID$", each.id).replace("$Number%05d$", f"{number:05d}")
            assert (folder / name).stat().st_size == ladder.sizes_bytes[segment, rung]


def test_an_independent_parser_reads_the_hls_playlists(site: tuple[Path, Ladder]) -> None:
    folder, ladder = site
    master = m3u8.load(str(folder / HLS))
    assert [each.uri for each in master.playlists] == ["media_0.m3u8", "media_1.m3u8"]
    assert [each.type for each in master.media] == ["AUDIO"]
    for rung, variant in enumerate(master.playlists):
        assert variant.stream_info.codecs.startswith("av01.0.")
        playlist = m3u8.load(str(folder / variant.uri))
        assert [each.uri for each in playlist.segments] == [segment_name(rung, number) for number in range(SEGMENTS)]
        assert [each.duration for each in playlist.segments] == pytest.approx([ladder.chunk_s] * SEGMENTS, abs=1e-3)
        assert playlist.is_endlist


def test_segments_are_closed_and_aligned_over_rungs(site: tuple[Path, Ladder]) -> None:
    folder, ladder = site
    chunk_s = SEGMENT_FRAMES * 1001 / 6000
    assert ladder.chunk_s == pytest.approx(chunk_s)
    for segment in range(SEGMENTS):
        times = []
        for rung in (0, 1):
            pictures = decoded(folder, rung, segment)
            assert len(pictures) == SEGMENT_FRAMES
            assert pictures[0].key_frame
            times.append([picture.time for picture in pictures])
        assert times[0] == times[1]
        assert times[0][0] == pytest.approx(segment * chunk_s, abs=1e-3)


@pytest.mark.parametrize(("codec", "name"), [("aac", "aac"), ("pcm_s16le", "opus")])
def test_sound_is_a_track_of_its_own_as_long_as_the_pictures(tmp_path: Path, codec: str, name: str) -> None:
    source = film(tmp_path / "film.mkv", codec)
    ladder = encode_ladder(Clip.open(source), tmp_path, QUICK)
    files = [tmp_path / "init-stream2.mp4", *sorted(tmp_path.glob("chunk-stream2-*.m4s"))]
    assert len(files) == 1 + SEGMENTS
    with av.open(io.BytesIO(b"".join(file.read_bytes() for file in files)), "r") as container:
        stream = container.streams.audio[0]
        assert stream.codec_context.name == name
        packets = [bytes(packet) for packet in container.demux(stream) if packet.size]
    assert ladder.chunk_s is not None
    assert len(packets) * (1024 if name == "aac" else 960) / 48000 == pytest.approx(SEGMENTS * ladder.chunk_s, abs=0.05)
    if name == codec:  # copied, not coded again
        with av.open(str(source)) as container:
            original = [bytes(packet) for packet in container.demux(audio=0) if packet.size]
        assert packets == original[: len(packets)]


def test_ffprobe_plays_both_manifests(site: tuple[Path, Ladder]) -> None:
    if shutil.which("ffprobe") is None:
        pytest.skip("no ffprobe here: apt-get install ffmpeg")
    folder, _ = site
    for manifest in (MANIFEST, HLS):
        words = ["ffprobe", "-v", "error", "-count_packets", "-show_streams", "-of", "json", str(folder / manifest)]
        shown = subprocess.run(words, capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr
        streams = json.loads(shown.stdout)["streams"]
        counts = [int(each["nb_read_packets"]) for each in streams if each["codec_name"] == "av1"]
        # FFmpeg reads the length of DASH in whole seconds, so the last segment may be beyond it.
        least = SEGMENT_FRAMES * (SEGMENTS - (manifest == MANIFEST))
        assert all(least <= count <= SEGMENT_FRAMES * SEGMENTS for count in counts), (manifest, counts)
        assert len(counts) == 2
        assert "aac" in [each["codec_name"] for each in streams]


def test_the_same_clip_gives_the_same_files_and_a_shorter_one_removes_the_surplus(tmp_path: Path) -> None:
    clip = generated_clip("street", size=(64, 64), frames=12, fps=6)
    folder = tmp_path / "site"
    folder.mkdir()
    encode_ladder(clip, folder, QUICK)
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "notes.txt").write_text("mine")
    encode_ladder(clip, folder, QUICK)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first | {"notes.txt": b"mine"}
    encode_ladder(clip.window(0, 6), folder, QUICK)
    gone = {segment_name(rung, 1) for rung in (0, 1)}
    assert {file.name for file in folder.iterdir()} == set(first) - gone | {"notes.txt"}


def test_a_ladder_that_fails_leaves_the_old_site(tmp_path: Path) -> None:
    clip = generated_clip("street", size=(64, 64), frames=6, fps=6)
    encode_ladder(clip, tmp_path, QUICK)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def stop(segment: int, rung: int) -> None:
        raise ContentError("enough")

    with pytest.raises(ContentError, match="enough"):
        encode_ladder(clip, tmp_path, QUICK, stop)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
