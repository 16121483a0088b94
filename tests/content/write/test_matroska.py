from __future__ import annotations

import io
from fractions import Fraction

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.content.read.carried import Presentation
from reelrl.content.write.matroska import Amendment, amend_tracks, av1_template, display_size
from reelrl.errors import ContentError


@given(
    width=st.integers(8, 4096),
    height=st.integers(8, 4096),
    aspect=st.fractions(min_value=Fraction(1, 4), max_value=4, max_denominator=64),
)
def test_a_display_size_has_the_picture_s_shape(width: int, height: int, aspect: Fraction) -> None:
    across, down = display_size(width, height, aspect)
    wanted = width * aspect / height
    assert Fraction(across, down) == wanted or abs(Fraction(across, down) / wanted - 1) < Fraction(1, 2 * width // 4)
    assert max(across, down) <= 1 << 15


def test_usual_shapes_are_exact() -> None:
    cases = {(720, 576, "64/45"): (1024, 576), (720, 480, "32/27"): (848, 477), (1440, 1080, "4/3"): (1920, 1080)}
    for (width, height, aspect), size in cases.items():
        assert display_size(width, height, Fraction(aspect)) == size


def test_a_template_is_a_file_of_one_picture(av1_packets: list[bytes]) -> None:
    file = io.BytesIO(av1_template(av1_packets[0], 64, 48, Presentation(primaries=9, transfer=16, matrix=9)))
    with av.open(file, "r") as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        assert (context.name, context.width, context.height) == ("libdav1d", 64, 48)
        assert [len(bytes(packet)) for packet in container.demux(stream) if packet.size] == [len(av1_packets[0])]


def test_without_room_for_it_a_track_is_not_amended(av1_packets: list[bytes]) -> None:
    file = io.BytesIO(av1_template(av1_packets[0], 64, 48, Presentation()))
    before = file.getvalue()
    with pytest.raises(ContentError, match="bytes of room"):
        amend_tracks(file, {0: Amendment(delay_ns=1)})
    with pytest.raises(ContentError, match="track 3 is not among the 1"):
        amend_tracks(file, {3: Amendment(delay_ns=1)})
    assert file.getvalue() == before
