from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from reelrl.content.quality import sse
from reelrl.encode.codecs.decoding import decode
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import encode_clip
from reelrl.encode.minigop.evaluate import (
    ANCHORS,
    MiniGopContestant,
    MiniGopEvaluationPlan,
    buffer_use,
    encode_all,
    open_sequence,
    with_anchors,
)
from reelrl.encode.minigop.evaluation import controller_encodes as minigop_play
from reelrl.encode.minigop.evaluation import encoder_modes as minigop_modes
from reelrl.encode.minigop.evaluation.baseline import read_baseline, write_baseline
from reelrl.encode.minigop.evaluation.summary import clip_results, rate_uses, warnings
from reelrl.errors import ConfigError, ContentError, ReelError
from reelrl.report.verdicts import verdicts
from tests.encode.makers import scene

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.content.clip import Clip
    from reelrl.encode.minigop.evaluation.rate_point import RatePoint

pytestmark = pytest.mark.slow

QUICK = EncoderSettings(preset=10, keyint=33)
REPLAY = MiniGopContestant.parse("replay=crf-replay")


@cache
def clips() -> tuple[Clip, ...]:
    return scene(frames=20), scene("cuts", frames=20)


def protocol(goal: str = "vbr") -> MiniGopEvaluationPlan:
    return MiniGopEvaluationPlan(goal=goal, qps=(30, 38, 46, 54), encoder=QUICK)  # type: ignore[arg-type]


@cache
def points(goal: str = "vbr") -> tuple[RatePoint, ...]:
    return tuple(encode_all([REPLAY], clips(), protocol(goal)))


def of(name: str, goal: str = "vbr") -> list[RatePoint]:
    return [point for point in points(goal) if point.contestant == name]


def test_everybody_meets_every_clip_at_every_rate() -> None:
    assert {point.contestant for point in points()} == {"vbr1", "vbr2", "crf", "replay"}
    assert len({(p.contestant, p.clip, p.qp) for p in points()}) == len(points()) == 4 * 2 * 4


def test_targets_are_the_rates_of_crf_in_whole_kilobits() -> None:
    for point in of("crf"):
        assert point.target_kbps == round(point.kbps)
    targets = {(p.clip, p.qp): p.target_kbps for p in of("crf")}
    assert all(p.target_kbps == targets[p.clip, p.qp] for p in points())


def test_passes_are_counted_with_the_first_and_the_probe() -> None:
    passes = {point.contestant: point.passes for point in points()}
    assert passes == {"crf": 1, "vbr1": 1, "vbr2": 2, "replay": 2}


def test_low_delay_knows_the_encoders_cbr_with_the_mini_gops_it_takes() -> None:
    assert {point.contestant: point.passes for point in points("cbr")} == {"cbr": 1, "crf": 1, "replay": 1}
    assert "mini-GOPs of 4" in minigop_modes.MODES["cbr"].note


def test_an_evaluation_that_was_killed_goes_on_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    first = points()
    for module, name in ((minigop_modes, "encode_packets"), (minigop_play, "run_controller")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("encoded again"))
    assert tuple(encode_all([REPLAY], clips(), protocol())) == first


def test_processes_give_the_same_as_one() -> None:
    assert tuple(encode_all([REPLAY], clips(), protocol(), jobs=2)) == points()


def test_a_mode_encoded_anew_has_the_same_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = {p.qp: p.stream_hash for p in of("vbr2") if p.clip == clips()[0].name}
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path))
    kbps = next(p.target_kbps for p in of("vbr2") if p.qp == 38 and p.clip == clips()[0].name)
    again = minigop_modes.mode_encode(clips()[0], protocol().settings, "vbr2", kbps)
    assert again.stream_hash == first[38]


def test_quality_is_that_of_the_decoded_pictures() -> None:
    settings = replace(protocol().settings, qp=38)
    coded = encode_clip(clips()[0], settings)
    shown = decode([packet.data for packet in coded.packets])
    errors = [sse(ours.y, theirs.y) for ours, theirs in zip(clips()[0], shown, strict=True)]
    assert minigop_modes.crf_encode(clips()[0], settings, 38).sse_y == errors


def test_everybody_is_compared_with_every_anchor_but_itself() -> None:
    found = {(r.contestant, r.anchor) for r in clip_results(points(), ANCHORS["vbr"], ["psnr_y"])}
    anchors = {"vbr1", "vbr2", "crf"}
    assert found == {(name, anchor) for name in anchors | {"replay"} for anchor in anchors if name != anchor}


def test_a_verdict_names_its_anchor() -> None:
    results = clip_results(points(), ANCHORS["vbr"], ["psnr_y", "ssim_db"])
    assert {(v.contestant, v.anchor) for v in verdicts(results)} == {(r.contestant, r.anchor) for r in results}


def faked(error_percent: float, clip: str = "a", contestant: str = "mine", **changes: Any) -> RatePoint:
    """A point whose rate misses its target by so much."""
    like = replace(of("vbr1")[0], contestant=contestant, clip=clip, target_kbps=100)
    return replace(like, kbps=100 * (1 + error_percent / 100), **changes)


def test_errors_of_both_signs_do_not_cancel() -> None:
    made = [faked(-4), faked(4), faked(10, "b"), faked(-6, "b"), *of("crf")]
    (use,) = rate_uses([MiniGopContestant("mine", "crf-replay")], made, "vbr")
    assert use.error is not None
    assert use.error.mean == pytest.approx(6)
    assert use.bias == pytest.approx(1)
    assert use.far_off == pytest.approx(0.5)
    assert use.error_p95 == pytest.approx(9.4)


def test_crf_has_no_target_to_miss() -> None:
    (use,) = rate_uses([MiniGopContestant("crf", "crf")], of("crf"), "vbr")
    assert (use.error, use.error_p95, use.slower) == (None, None, 1.0)


def test_a_reader_is_told_what_differs() -> None:
    everyone = with_anchors([REPLAY], "vbr")
    uses = rate_uses(everyone, points(), "vbr")
    assert warnings(everyone, uses, protocol()) == ["replay makes 2 passes, vbr1 1"]
    threaded = replace(protocol(), encoder=replace(QUICK, threads=2), qps=(30, 40))
    notes = " ".join(warnings(everyone, uses, threaded))
    assert "2 threads" in notes
    assert "2 rates" in notes


def test_frames_are_late_only_where_a_buffer_was_promised() -> None:
    crf = [MiniGopContestant("crf", "crf")]
    assert rate_uses(crf, of("crf"), "vbr")[0].late is None
    assert rate_uses(crf, of("crf", "cbr"), "cbr")[0].late is not None


@given(lists(integers(0, 5000), min_size=1, max_size=40), floats(20, 500), floats(0.1, 3))
def test_a_larger_buffer_or_rate_is_never_later(sizes: list[int], kbps: float, buffer_s: float) -> None:
    late, peak_s = buffer_use(sizes, Fraction(25), kbps, buffer_s)
    assert buffer_use(sizes, Fraction(25), kbps, 2 * buffer_s)[0] <= late
    assert buffer_use(sizes, Fraction(25), 2 * kbps, buffer_s)[0] <= late
    assert (peak_s > buffer_s) == (late > 0)


def test_a_stream_at_its_rate_needs_one_frame_of_buffer() -> None:
    late, peak_s = buffer_use([500] * 50, Fraction(25), 100, 0.05)
    assert late == 0
    assert peak_s == pytest.approx(0.04)
    assert buffer_use([5000, *[0] * 9, 500], Fraction(25), 100, 0.2)[0] == 6


def test_clips_can_follow_each_other() -> None:
    name = "generated:talk?size=64x64&frames=3+generated:street?size=64x64&frames=4"
    clip = open_sequence(name)
    assert (clip.name, clip.frame_count) == (name, 7)
    assert clip.source == "generated:street+generated:talk"


@pytest.mark.parametrize(
    ("text", "name", "spec", "for_clip"),
    [
        ("crf-replay", "crf-replay", "crf-replay", "crf-replay"),
        ("mine=runs/0007", "mine", "runs/0007", "runs/0007"),
        ("fit=p/{source}.safetensors", "fit", "p/{source}.safetensors", "p/generated-street.safetensors"),
    ],
)
def test_contestants_are_parsed(text: str, name: str, spec: str, for_clip: str) -> None:
    found = MiniGopContestant.parse(text)
    assert (found.name, found.spec, found.for_clip(scene())) == (name, spec, for_clip)


@pytest.mark.parametrize(
    ("names", "goal", "match"),
    [
        (["crf-relpay"], "vbr", "did you mean 'crf-replay'"),
        (["a=crf-replay", "a=crf-replay(1)"], "vbr", "two contestants"),
        (["cbr"], "vbr", "no part in the goal"),
        (["vbr1"], "cbr", "no part in the goal"),
    ],
)
def test_wrong_contestants_are_refused_before_anything_is_encoded(names: list[str], goal: str, match: str) -> None:
    with pytest.raises(ReelError, match=match):
        encode_all([MiniGopContestant.parse(name) for name in names], clips(), protocol(goal))


def test_wrong_protocols_are_refused() -> None:
    with pytest.raises(ConfigError, match="use vbr or cbr"):
        protocol("abr")
    with pytest.raises(ConfigError, match="1 QPs"):
        MiniGopEvaluationPlan(qps=(30,))
    with pytest.raises(ConfigError, match="two clips"):
        encode_all([REPLAY], [clips()[0]] * 2, protocol())


def test_a_file_of_baselines_comes_back_by_name_and_by_content(tmp_path: Path) -> None:
    path = tmp_path / "crf.json"
    write_baseline(path, points(), protocol())
    found = read_baseline(path)
    clip = clips()[0]
    assert found[clip.name] == found[clip.content_hash]
    crf_points = [p for p in of("crf") if p.clip == clip.name]
    assert [(p.qp, p.kbps, p.psnr_y) for p in found[clip.name]] == [
        (p.qp, p.kbps, p.quality["psnr_y"]) for p in crf_points
    ]
    assert all(0 < p.ssim_y < 1 for p in found[clip.name])


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', '{"schema": 1, "clips": {"a": {"points": [{}]}}}'])
def test_a_file_that_holds_no_baselines_says_how_to_write_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ContentError, match="reel evaluate minigop --baseline"):
        read_baseline(tmp_path / "bad.json")
    with pytest.raises(ContentError, match="no such file"):
        read_baseline(tmp_path / "gone.json")
