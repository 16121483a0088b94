"""The encoder that asks before each mini-GOP: what it asks, when it reports, and what its decisions come to."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.encode import EncoderSettings, encode_packets
from reelrl.encode.codecs.decoding import decoded
from reelrl.encode.file.export import Decisions, export, read_qp_file
from reelrl.encode.minigop.controllers.leaky_bucket import LeakyBucket
from reelrl.encode.minigop.controllers.rules import CrfReplay, FixedDeltas, RateModel
from reelrl.encode.minigop.record import record_of, replay
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.in_process import LOW_DELAY, RANDOM_ACCESS, Rounding
from reelrl.encode.minigop.source.plan import layers_of, spans_of
from reelrl.encode.minigop.source.preparation import Preparation, open_source
from reelrl.encode.minigop.source.probe import probe
from reelrl.errors import ConfigError
from tests.encode.makers import bytes_of, scene, squared_error

pytestmark = pytest.mark.slow

QUICK = replace(RANDOM_ACCESS, hierarchical_levels=3, preset=10)
CLIP = scene(frames=44)


@given(frames=st.integers(1, 400), levels=st.integers(2, 5), keyint=st.one_of(st.just(-1), st.integers(1, 200)))
def test_mini_gops_cover_every_frame_once_and_never_a_key_frame_inside(frames: int, levels: int, keyint: int) -> None:
    settings = EncoderSettings(hierarchical_levels=levels, keyint=keyint)
    spans = spans_of(frames, settings)
    assert [number for span in spans for number in range(span.first, span.end)] == list(range(frames))
    keys = set(range(0, frames, keyint if keyint > 0 else frames))
    assert all(number not in keys for span in spans for number in range(span.first + 1, span.end))
    assert all(span.frames <= 2**levels + 1 for span in spans)


@given(deltas=st.lists(st.floats(-6, 6), min_size=1, max_size=30))
def test_each_layers_mean_is_what_was_asked_for(deltas: list[float]) -> None:
    layers, rounding = (4, 3, 4, 2, 4, 3, 4, 0), Rounding()
    sent = [rounding.realise((32,) * 8, layers, delta) for delta in deltas]
    for layer in set(layers):
        places = [place for place, own in enumerate(layers) if own == layer]
        asked = sum(delta * len(places) for delta in deltas)
        assert sum(qps[place] - 32 for qps in sent for place in places) == pytest.approx(asked, abs=0.501)


def test_qps_stay_in_the_encoders_range() -> None:
    assert Rounding().realise((2, 61), (0, 1), -6) == [1, 55]
    assert Rounding().realise((2, 61), (0, 1), 6) == [8, 63]


def test_layers_of_low_delay_are_the_encoders() -> None:
    settings = replace(LOW_DELAY, preset=10).for_clip(CLIP)
    spans = spans_of(17, settings)
    planned = [layer for span in spans for layer in layers_of(span, spans, settings.levels)]
    assert planned == [packet.layer for packet in encode_packets(CLIP.window(0, 17), settings)]


def test_no_delta_and_no_headroom_replay_the_encoders_own_pass() -> None:
    prepared = Preparation(CLIP, QUICK)
    run = run_controller(prepared.source(start_qp=40, headroom=0), CrfReplay())
    own = probe(CLIP, replace(prepared.settings, qp=40))
    assert [packet.qp for packet in run.packets] == own.qps.tolist()
    assert abs(run.rate_error) < 0.05


@pytest.mark.parametrize("settings", [QUICK, LOW_DELAY], ids=["random_access", "low_delay"])
def test_a_larger_delta_spends_less(settings: EncoderSettings) -> None:
    prepared = Preparation(CLIP, settings)
    bits = [run_controller(prepared.source(kbps=100, start_qp=38), CrfReplay(delta)).bits for delta in (-4, -0.5, 3, 8)]
    assert bits == sorted(bits, reverse=True)
    assert len(set(bits)) == len(bits)


@pytest.mark.parametrize("lag", [2, 3])
def test_random_access_tells_of_a_mini_gop_after_the_lag(lag: int) -> None:
    source = open_source(CLIP, QUICK, kbps=100, start_qp=40, feedback_lag=lag)
    reported: list[int] = []
    while (request := source.request()) is not None:
        reported += [report.mg for report in source.feedback()]
        assert reported == list(range(max(request.mg - lag, 0)))
        source.reply(0.5)
    reported += [report.mg for report in source.feedback()]
    assert reported == list(range(len(source.spans)))
    source.close()


def test_low_delay_tells_at_once() -> None:
    source = open_source(CLIP, LOW_DELAY, kbps=100)
    while (request := source.request()) is not None:
        known = source.feedback()
        assert [report.mg for report in known] == ([request.mg - 1] if request.mg else [])
        source.reply(0.0)
    source.close()


def test_a_lag_that_the_encoder_cannot_keep_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"feedback_lag = 1.*use 2 or more"):
        open_source(CLIP, QUICK, kbps=100, start_qp=40, feedback_lag=1)


def test_feedback_adds_up_to_the_stream_that_a_decoder_sees() -> None:
    run = run_controller(open_source(CLIP, QUICK, kbps=80, start_qp=44), CrfReplay(1.5))
    assert run.bits == 8 * len(bytes_of(run.packets))
    pictures = decoded([packet.data for packet in run.packets])
    errors = [squared_error(source.y, shown.y) for source, shown in zip(CLIP, pictures, strict=True)]
    assert sum(errors) == sum(report.sse_y for report in run.feedback)
    assert [report.gop_end for report in run.feedback].count(True) == 1


@pytest.mark.parametrize("settings", [QUICK, LOW_DELAY], ids=["random_access", "low_delay"])
def test_a_pass_is_coded_again_to_the_same_bytes_from_its_record(settings: EncoderSettings) -> None:
    prepared = Preparation(CLIP, replace(settings, keyint=20))
    deltas = [0.4 * (-1) ** number * number for number in range(len(spans_of(44, prepared.settings)))]
    source = prepared.source(kbps=90, start_qp=41)
    run = run_controller(source, FixedDeltas(deltas))
    record = record_of(source, video="nowhere", seed=3, totals={})
    assert replay(record, CLIP) == bytes_of(run.packets)
    with pytest.raises(ConfigError, match="no record"):
        replay({"schema": 1})


def test_a_qp_file_gives_a_plain_session_the_same_bytes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    source = open_source(CLIP, QUICK, kbps=90, start_qp=41)
    run = run_controller(source, FixedDeltas((2.0, -1.3, 0.2, 0.0, 1.0, -2.0)))
    export(Decisions.of(source), "qpfile", tmp_path / "qps.txt")
    qps = read_qp_file(tmp_path / "qps.txt")
    again = encode_packets(CLIP, source.settings, lambda number, _: {"qp": qps[number]})
    assert bytes_of(list(again)) == bytes_of(run.packets)


def test_the_rate_model_meets_budgets_far_from_its_probe() -> None:
    prepared = Preparation(scene(frames=90), QUICK)
    for share in (0.8, 1.25):
        kbps = prepared.kbps_at(40) * share
        run = run_controller(prepared.source(kbps=kbps, start_qp=40), RateModel())
        assert abs(run.rate_error) < 0.06


def test_the_leaky_bucket_holds_its_rate_from_a_wrong_start() -> None:
    clip = scene(frames=120)
    prepared = Preparation(clip, LOW_DELAY)
    run = run_controller(prepared.source(kbps=prepared.kbps_at(40), start_qp=44), LeakyBucket())
    assert abs(run.rate_error) < 0.12


def test_the_rate_model_says_where_it_cannot_work() -> None:
    with pytest.raises(ConfigError, match="no probe to plan from; use leaky-bucket"):
        run_controller(open_source(CLIP, LOW_DELAY, kbps=100), RateModel())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"settings": replace(QUICK, backend="aom")}, "no mini-GOPs that can be steered; use svtav1"),
        ({"settings": EncoderSettings(hierarchical_levels=0)}, "makes no mini-GOPs"),
        ({"settings": LOW_DELAY}, "low delay needs kbps"),
        ({"kbps": -1}, "above zero"),
    ],
)
def test_what_cannot_be_steered_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_source(CLIP, **{"settings": QUICK, **options})  # type: ignore[arg-type]


def test_a_reply_needs_a_question() -> None:
    source = open_source(CLIP, LOW_DELAY, kbps=100)
    with pytest.raises(ConfigError, match="call request"):
        source.reply(0.0)
    source.request()
    with pytest.raises(ConfigError, match="delta = nan"):
        source.reply(float("nan"))
    source.close()
    with pytest.raises(ConfigError, match="closed"):
        source.request()
    assert source.episode.fps == Fraction(CLIP.fps)


@pytest.mark.parametrize("minigops", [1, 2, 4])
def test_a_pass_can_be_left_at_any_time(minigops: int) -> None:
    source = open_source(CLIP, QUICK, kbps=100, start_qp=40)
    for _ in range(minigops):
        source.request()
        source.reply(0.0)
    source.close()
    with pytest.raises(ConfigError, match="closed"):
        source.request()
