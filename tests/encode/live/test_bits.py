"""Predictors of a frame's bits: laws of their curves, and what fitting and saving them leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from reelrl.cli.main import main
from reelrl.content.generated.clips import generated_clip
from reelrl.encode.live.bits import FrameBits, RuleBits
from reelrl.encode.live.controller import LiveController
from reelrl.encode.live.frame_look import OCTAVES, FrameLook, FrameLooker
from reelrl.encode.live.learned_bits import LearnedBits, load_net
from reelrl.encode.live.qps import QPS
from reelrl.encode.live.standing import StandingPicture
from reelrl.encode.live.structure import SceneWatch, is_reference, layer_of, shares
from reelrl.encode.live.weights import SHIPPED
from reelrl.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


def predictors() -> list[FrameBits]:
    return [RuleBits(320 * 180), LearnedBits(320 * 180, load_net())]


@some.composite
def looks(draw: some.DrawFn) -> FrameLook:
    intra, inter = (
        np.array(draw(some.lists(some.floats(0.01, 1), min_size=OCTAVES, max_size=OCTAVES)), np.float32)
        for _ in range(2)
    )
    energy = sorted(draw(some.tuples(some.floats(0, 60), some.floats(0, 60))), reverse=True)
    share = some.floats(0, 1)
    return FrameLook(intra / intra.sum(), inter / inter.sum(), (energy[0], energy[1]), draw(share), draw(share))


@settings(max_examples=30)
@given(seen=some.lists(some.tuples(looks(), some.integers(1, 63), some.integers(8, 10**6)), min_size=1, max_size=6))
def test_a_coarser_qp_never_takes_more_and_nothing_is_infinite(seen: list[tuple[FrameLook, int, int]]) -> None:
    for model in predictors():
        for number, (look, qp, bits) in enumerate(seen):
            curve = model.predict(look, layer_of(number), afresh=number == 0)
            assert np.isfinite(curve.log2_bits).all()
            assert (np.diff(curve.log2_bits) <= 1e-9).all()
            assert (curve.spread > 0).all()
            model.learn(qp, bits)


@settings(max_examples=30)
@given(
    seen=some.lists(some.tuples(looks(), some.integers(8, 10**6)), min_size=1, max_size=12), kbps=some.floats(1, 1e5)
)
def test_whatever_frames_take_the_controller_answers_with_a_qp(seen: list[tuple[FrameLook, int]], kbps: float) -> None:
    controller = LiveController(fps=30.0, kbps=kbps, buffer_s=0.5, bits=RuleBits(320 * 180))
    for look, bits in seen:
        assert controller.decide(look) in QPS
        controller.learn(controller.decide_again(30, bits), bits)
        assert controller.level_bits >= 0


PIXELS = 320 * 180


def look_of(octave: int, *, left: int, still: float = 0.0, new: float = 0.0) -> FrameLook:
    """A picture of one texture, of which motion leaves energy in octave `left`."""
    intra, inter = np.zeros((2, OCTAVES), np.float32)
    intra[octave] = inter[left] = 1.0
    return FrameLook(intra, inter, (2.0 ** (octave - 3), 2.0 ** (left - 3)), new, still, intra * np.float32(new))


STILL, SLIDE = look_of(7, left=0, still=1.0), look_of(7, left=6, still=0.4, new=0.25)


def begun() -> RuleBits:
    """A model that has seen a picture coded at QP 30."""
    model = RuleBits(PIXELS)
    model.predict(STILL, 0, afresh=True)
    model.learn(30, 60_000)
    return model


def test_many_frames_that_show_nothing_say_nothing_of_one_that_is_new() -> None:
    fresh, bored = begun(), begun()
    for number in range(1, 41):
        bored.predict(STILL, layer_of(number), afresh=False)
        bored.learn(40, 170)
    first, later = (model.predict(SLIDE, 2, afresh=False).log2_bits[39] for model in (fresh, bored))
    assert later == pytest.approx(first, abs=0.5)
    assert bored.predict(STILL, 2, afresh=False).log2_bits[39] == pytest.approx(np.log2(170), abs=0.3)


def test_what_only_a_frame_showed_that_nobody_refers_to_is_still_to_be_coded() -> None:
    model = begun()
    slide = model.predict(SLIDE, 2, afresh=False).log2_bits[39]
    model.learn(40, int(2**slide))
    assert model.predict(STILL, 1, afresh=False).log2_bits[39] > slide - 1
    model.learn(40, int(2**slide))
    assert model.predict(STILL, 2, afresh=False).log2_bits[39] < slide - 3


def test_a_picture_is_no_finer_where_the_encoder_left_refining_out() -> None:
    model = begun()
    before = model.predict(STILL, 0, afresh=False)
    model.learn(24, 200)
    after = model.predict(STILL, 0, afresh=False)
    assert after.finest == before.finest
    model.learn(18, 30_000)
    assert model.predict(STILL, 0, afresh=False).finest < after.finest


@given(coded=some.lists(some.tuples(some.integers(1, 63), some.floats(0, 1), some.floats(0, 1)), max_size=8))
def test_making_a_picture_finer_takes_nothing_where_it_is_as_fine_and_never_more_when_coarser(
    coded: list[tuple[int, float, float]],
) -> None:
    picture, intra = StandingPicture(), 1e6 * 2.0 ** (-QPS / 8)
    for qp, still, refined in coded:
        picture.coded(qp, still, refined)
    finer = picture.finer(intra)
    assert (np.diff(finer) <= 1e-6).all()
    assert finer[-1] == pytest.approx(0.0, abs=1e-6)
    picture.coded(20, 0.0, 1.0)
    assert picture.coarsest == 20
    assert picture.finer(intra)[19:] == pytest.approx(0.0, abs=1e-6)


def test_nothing_that_stands_still_is_made_finer_in_frames_that_nobody_refers_to() -> None:
    controller = LiveController(fps=30.0, kbps=60, buffer_s=1.0, bits=RuleBits(PIXELS))
    qps = []
    for number in range(24):
        qps.append(controller.decide(STILL))
        controller.learn(qps[-1], 30_000 if number == 0 else 200)
    assert min(qps[1::2]) >= qps[0]
    assert min(qps[2::2]) < qps[0]


def test_layers_are_those_that_the_encoder_codes() -> None:
    assert [layer_of(number) for number in range(9)] == [0, 2, 1, 2, 0, 2, 1, 2, 0]
    assert [layer_of(number, 0) for number in range(3)] == [0, 0, 0]
    assert sum(shares()) == sum(shares(0)) == sum(shares(3)) == 1
    assert not is_reference(2)
    assert is_reference(0, 0)


def test_after_a_cut_frames_are_coded_afresh_until_a_reference_is_there() -> None:
    looker = FrameLooker(160, 96)
    frames = [*generated_clip("talk", size=(160, 96), frames=5), *generated_clip("pan", size=(160, 96), frames=4)]
    scene, afresh = SceneWatch(), []
    for number, frame in enumerate(frames):
        afresh.append(scene.afresh(looker.look(frame)))
        scene.coded(layer_of(number))
    # The cut falls on frame 5, to which nobody refers.
    assert afresh == [True, False, False, False, False, True, True, False, False]


def test_a_look_tells_still_from_moving_and_new() -> None:
    looker = FrameLooker(160, 96)
    talk, street = (list(generated_clip(style, size=(160, 96), frames=2)) for style in ("talk", "street"))
    first, again, moved, other = (looker.look(frame) for frame in (talk[0], talk[0], talk[1], street[0]))
    assert first.cut == pytest.approx(1.0)
    assert first.still == 0.0
    assert again.energy[1] == 0.0
    assert again.still == pytest.approx(1.0)
    assert 0 < moved.energy[1] < 0.5 * moved.energy[0]
    assert other.is_cut
    for look in (first, again, moved, other):
        assert look.intra.sum() == pytest.approx(1, abs=1e-4)
        assert look.inter.sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_a_fitted_net_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "net.safetensors"
    clips = [f"generated:{style}?size=96x64&frames=12" for style in ("street", "pan")]
    assert main(["fit", "live", "-o", str(out), "--clips", *clips, "--encodes", "1", "--epochs", "2"]) == 0
    assert "held out" in capsys.readouterr().out
    assert load_net(out).weights[0].shape == load_net(SHIPPED).weights[0].shape
    target = tmp_path / "o.ivf"
    asked = ["encode", clips[0], "-o", str(target), "--bitrate", "80", "--live", "--policy", str(out)]
    assert main(asked) == 0
    assert target.stat().st_size > 500


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    other.write_bytes(b"no tensors")
    for path in (other, tmp_path / "none.safetensors"):
        with pytest.raises(CheckpointError, match="no predictor of live bits"):
            load_net(path)
