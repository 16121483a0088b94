"""The scale-free policy: one simulator, the same features in training and in use, laws of scale and padding."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.errors import CheckpointError, ConfigError
from reelrl.stream.controllers.protocol import EpisodeInfo
from reelrl.stream.data.ladders import PENSIEVE_KBPS, Ladder, Video, nominal_ladder, read_ladder
from reelrl.stream.data.pools import default_links
from reelrl.stream.data.traces import Trace
from reelrl.stream.playback import load_bitrate_controller, play
from reelrl.stream.scalefree import compiled
from reelrl.stream.scalefree.batch import BLOCK
from reelrl.stream.scalefree.controller import ScaleFree, actor_shapes, load_scale_free, save_scale_free
from reelrl.stream.scalefree.features import Offer, Player, features, measured, no_history
from reelrl.stream.scalefree.links import breaking_links, training_links
from reelrl.stream.scalefree.network import make_scale_free, packed, unpacked
from reelrl.stream.scalefree.players import PENSIEVES, MixedPlayers
from reelrl.stream.scalefree.random_videos import random_videos, videos_on
from reelrl.stream.scalefree.sizes import AHEAD, CONTEXT, RUNG
from reelrl.stream.scalefree.validation import Sessions, begin
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.qoe import Qoe
from reelrl.stream.simulator.rule import PENSIEVE
from reelrl.stream.simulator.vector_env import AbrVectorEnv
from tests.stream.helpers import links

if TYPE_CHECKING:
    from pathlib import Path

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    save_scale_free(make_scale_free(16, 3, CPU), path, {"step": 0})
    return path


def videos_of(seed: int, count: int = 6) -> tuple[list[Video], list[np.ndarray]]:
    """Videos whose worth is the rate, so that the environment's QoE is the same."""
    videos, _ = random_videos(np.random.default_rng(seed), count)
    return videos, [video.bitrates_kbps / video.bitrates_kbps[-1] for video in videos]


def ladder_of(video: Video) -> Ladder:
    return Ladder("drawn", video.bitrates_kbps, video.chunk_s, video.sizes_bytes)


@pytest.mark.parametrize("seed", [0, 1])
def test_everybody_plays_by_the_rule_of_the_environment(seed: int) -> None:
    """Every player, with a ladder and a link of their own, against ABREnv with the same actions."""
    traces, (videos, worth) = links(6), videos_of(seed)
    players = MixedPlayers(traces, videos_on("cpu", videos, worth), len(videos), "cpu", 0, noise=0.0)
    each = torch.arange(len(videos))
    ones = torch.ones(len(videos), dtype=torch.float64)
    state = begin(players, Sessions(each % len(traces), each, ones, 60.0 * ones))
    rng = np.random.default_rng(seed)
    envs = []
    for index, video in enumerate(videos):
        top = video.bitrates_kbps[-1] / 1000.0
        trace = traces[index % len(traces)]
        env = ABREnv(
            trace, ladder_of(video), preset="pensieve", noise=False, state="wide", qoe=Qoe(rebuf_penalty=float(top))
        )
        env.reset(options={"trace": 0, "start_slot": 0})
        envs.append((env, top))
    for _ in range(min(video.chunks for video in videos) - 1):
        actions = [int(rng.integers(video.rungs)) for video in videos]
        state, rewards = players.play(state, torch.tensor(actions), torch.full((len(videos),), 0.5))
        for index, (env, top) in enumerate(envs):
            _, reward, _, _, info = env.step(actions[index])
            assert float(rewards[index]) * top == pytest.approx(reward, rel=1e-4, abs=1e-4 * top)
            assert float(state.buffer_ms[index]) / 1000.0 == pytest.approx(info["buffer_s"], abs=1e-4)
            rate = info["chunk_size_bytes"] * 8e-3 / info["delay_ms"]
            assert float(state.rates[index, -1]) == pytest.approx(np.log(rate), abs=1e-4)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("caution", [0.0, 1.0])
def test_the_controller_sees_what_the_policy_was_trained_on(seed: int, caution: float, policy_file: Path) -> None:
    """Context, rungs and scores of the compiled controller, against those of the players in training."""
    traces, (videos, worth) = links(6), videos_of(seed)
    policy, _ = load_scale_free(policy_file)
    for index, video in enumerate(videos):
        players = MixedPlayers(traces, videos_on("cpu", [video], [worth[index]]), 1, "cpu", 0, noise=0.0)
        zero, one = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.float64)
        state = begin(players, Sessions(zero + index % len(traces), zero, one, 60.0 * one), caution)
        controller = ScaleFree(caution, path=policy_file)
        trace = traces[index % len(traces)]
        qoe = Qoe(rebuf_penalty=float(video.bitrates_kbps[-1] / 1000.0))
        env = ABREnv(trace, ladder_of(video), preset="pensieve", noise=False, state="wide", qoe=qoe)
        observation, _ = env.reset(options={"trace": 0, "start_slot": 0})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            controller.reset(0, EpisodeInfo(video, env.qoe, env.net_env.rule))
        for _ in range(min(video.chunks - 1, 25)):
            expected, _ = players.observe(state)
            rung = controller.act(observation)
            torch.testing.assert_close(torch.from_numpy(seen_by(controller)), expected, atol=2e-3, rtol=2e-3)
            scores = torch.from_numpy(controller.scores)
            torch.testing.assert_close(scores, policy.logits(expected)[0, : video.rungs], atol=1e-3, rtol=1e-2)
            torch.testing.assert_close(
                scores, policy.logits(torch.from_numpy(seen_by(controller)))[0, : video.rungs], atol=1e-5, rtol=1e-4
            )
            observation, *_ = env.step(rung)
            state, _ = players.play(state, torch.tensor([rung]), torch.tensor([0.5]))


def seen_by(controller: ScaleFree) -> np.ndarray:
    """What the compiled controller last showed its net, packed as in training."""
    net, all_there = controller._batch._net, np.ones((1, len(controller.scores)), dtype=np.float32)
    return np.concatenate([net._context, net._rungs.reshape(1, -1), all_there], axis=1)


def test_a_batch_decides_as_many_controllers_do() -> None:
    """Sessions that end and begin anew, more of them than a block."""
    ladder, players = nominal_ladder(chunks=9), BLOCK + 3
    env = AbrVectorEnv(links(6), ladder, players, preset="pensieve", noise=True, infos=False)
    episode = EpisodeInfo(ladder.video(), rule=env.rule)
    batch = ScaleFree().for_players(episode, players)
    chosen = {number: ScaleFree() for number in (0, 1, BLOCK - 1, BLOCK, BLOCK + 2)}
    observations, _ = env.reset(seed=0)
    for _ in range(25):
        rungs = batch.act(observations)
        for number, controller in chosen.items():
            if np.count_nonzero(observations[number, 3]) == 1:
                controller.reset(0, episode)
            assert controller.act(observations[number]) == rungs[number]
        observations, *_ = env.step(rungs)
    with pytest.raises(ConfigError, match=r"observations have shape \(2, 6, 8\); give \(259, 6, columns\)"):
        batch.act(observations[:2])


@settings(max_examples=200)
@given(st.floats(-100.0, 100.0, width=32))
def test_the_compiled_silu_is_silu(value: float) -> None:
    values = np.array([[value]], dtype=np.float32)
    compiled.activate(values, np.zeros(1, dtype=np.float32))
    expected = float(torch.nn.functional.silu(torch.tensor(value, dtype=torch.float64)))
    assert float(values[0, 0]) == pytest.approx(expected, abs=2e-6 * max(1.0, abs(value)))


@pytest.mark.parametrize(("rates", "share"), [([2.0] * 12, 0.0), ([0.5, 8.0] * 12, 1.0)])
def test_dread_of_long_stalls_is_for_restless_links(rates: list[float], share: float, policy_file: Path) -> None:
    controller = ScaleFree(3.0, path=policy_file)
    controller.reset(0, EpisodeInfo(nominal_ladder().video()))
    observation = np.zeros((6, 8), dtype=np.float32)
    for number, rate in enumerate(rates):
        observation[:, -1] = (0.2, 2.0, rate / 8.0, 0.4, 0.0, 0.5)
        observation[3, :-1] = 0.4 if number else 0.0
        controller.act(observation)
    columns = list(seen_by(controller)[0, 24 + 9 + 13 : 24 + 9 + 15])
    assert columns == pytest.approx([1.0, 0.5 * np.log1p(2.0 * share)], abs=0.01)


numbers = st.floats(0.05, 20.0)


@settings(max_examples=50)
@given(st.lists(numbers, min_size=3, max_size=9), st.floats(0.02, 50.0), st.integers(2, 9), st.integers(0, 99))
def test_only_ratios_count(rates: list[float], factor: float, rungs: int, seed: int) -> None:
    """Link, ladder and sizes times one factor: the same scores."""
    rng = np.random.default_rng(seed)
    ladder = np.cumprod(rng.uniform(1.2, 2.0, rungs))
    policy = make_scale_free(16, seed, CPU)

    def scores(scale: float) -> torch.Tensor:
        history = no_history(1)
        for rate in rates:
            history = measured(history, torch.tensor([rate * scale]), torch.tensor([2.0]), torch.tensor([9.0]))
        one = torch.ones(1)
        player = Player(
            4.0 * one,
            60.0 * one,
            one,
            2.0 * one,
            one,
            torch.tensor([ladder[-1] * scale], dtype=torch.float32),
            torch.tensor(ladder * scale, dtype=torch.float32)[None],
            torch.ones(1, rungs, dtype=torch.bool),
        )
        sizes = torch.tensor(ladder * 4.0 * scale, dtype=torch.float32)[None]
        worth = torch.tensor(ladder / ladder[-1], dtype=torch.float32)[None]
        offer = Offer(sizes, worth, torch.ones(1, AHEAD), worth[:, 0], 20.0 * one)
        return policy.scores(*features(player, offer, history), player.present.float())

    torch.testing.assert_close(scores(factor), scores(1.0), atol=1e-4, rtol=1e-3)


def test_padding_changes_nothing() -> None:
    """A ladder beside a longer one, and alone: the same scores, and never a rung that is not there."""
    videos, worth = videos_of(4, 8)
    policy = make_scale_free(16, 0, CPU)
    traces = links(3)
    zero, one = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.float64)
    together = videos_on("cpu", videos, worth)
    for index, video in enumerate(videos):
        alone = MixedPlayers(traces, videos_on("cpu", [video], [worth[index]]), 1, "cpu", 0, noise=0.0)
        beside = MixedPlayers(traces, together, 1, "cpu", 0, noise=0.0)
        looks = [
            players.observe(begin(players, Sessions(zero, zero + number, one, 60.0 * one)))
            for players, number in ((alone, 0), (beside, index))
        ]
        scores = [policy.logits(observation)[0] for observation, _ in looks]
        torch.testing.assert_close(scores[1][: video.rungs], scores[0], atol=1e-5, rtol=1e-4)
        assert bool((scores[1][video.rungs :] < -1e8).all())
        torch.testing.assert_close(looks[1][1], looks[0][1])


def test_the_sizes_that_are_written_down_are_those_that_are_used() -> None:
    one = torch.ones(1)
    player = Player(one, one, one, one, one, one, torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool))
    offer = Offer(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, AHEAD), one, one)
    context, rungs = features(player, offer, measured(no_history(1), one, one, one))
    assert (context.shape, rungs.shape) == ((1, CONTEXT), (1, 2, RUNG))
    actor = make_scale_free(40, 0, CPU).actor.state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in actor.items()} == actor_shapes(40, 48)


def test_a_session_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from reelrl.stream.data.ladders import read_ladder\n"
        "from reelrl.stream.data.pools import default_links\n"
        "from reelrl.stream.playback import load_bitrate_controller, play\n"
        "print(play(load_bitrate_controller('scalefree'), default_links()[0], read_ladder('nominal')).qoe)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    link, ladder = default_links()[0], read_ladder("nominal")
    assert float(said) == play(load_bitrate_controller("scalefree"), link, ladder).qoe


def test_packed_rows_come_apart_again() -> None:
    context, rungs, present = unpacked(torch.arange(2.0 * (packed_width := _width(5))).reshape(2, packed_width))
    assert packed(context, rungs, present).flatten().tolist() == list(range(2 * packed_width))


def _width(rungs: int) -> int:
    return CONTEXT + rungs * (RUNG + 1)


def test_whoever_comes_to_the_end_begins_another_video() -> None:
    videos, worth = videos_of(0, 4)
    players = MixedPlayers(links(4), videos_on("cpu", videos, worth), 64, "cpu", 7)
    players.reset()
    ended_in_all = 0
    for _ in range(60):
        before = players.state
        _, _, rewards, ended = players.step(torch.zeros(64, dtype=torch.int64))
        ended_in_all += int(ended.sum())
        assert bool((players.state.chunk[ended] == 1).all())
        assert bool((players.state.chunk[~ended] == before.chunk[~ended] + 1).all())
        assert bool((players.state.seen[ended].sum(1) == 1).all())
        assert bool(torch.isfinite(rewards).all())
    assert ended_in_all > 10


def test_players_go_on_exactly_where_they_were_saved() -> None:
    videos, worth = videos_of(0, 4)

    def made() -> MixedPlayers:
        return MixedPlayers(links(4), videos_on("cpu", videos, worth), 16, "cpu", 7)

    players = made()
    players.reset()
    actions = torch.zeros(16, dtype=torch.int64)
    for _ in range(5):
        players.step(actions)
    saved = {name: tensor.clone() for name, tensor in players.export().items()}
    expected = [players.step(actions) for _ in range(5)]
    resumed = made()
    resumed.restore(saved)
    for want in expected:
        for a, b in zip(want, resumed.step(actions), strict=True):
            torch.testing.assert_close(a, b, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("rungs", [2, 6, 16])
def test_any_number_of_rungs_can_be_played(rungs: int, policy_file: Path) -> None:
    ladder = nominal_ladder(bitrates_kbps=[300.0 * 1.4**k for k in range(rungs)], chunk_s=2.0, chunks=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = play(ScaleFree(path=policy_file), links(3)[0], ladder, seed=0)
    assert np.isfinite(session.qoe)


def test_outside_its_training_it_says_so_once(policy_file: Path) -> None:
    controller = ScaleFree(path=policy_file)
    inside, outside = nominal_ladder().video(), nominal_ladder(chunk_s=30.0).video()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        controller.reset(0, EpisodeInfo(inside))
    with pytest.warns(UserWarning, match=r"seconds per chunk 30 \(trained on 1 to 10\).*compare it with robustmpc"):
        controller.reset(0, EpisodeInfo(outside))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        controller.reset(0, EpisodeInfo(outside))


def test_caution_and_thrift_are_numbers_that_can_be(policy_file: Path) -> None:
    ScaleFree(0.0, 0.0, 0.0, policy_file)
    with pytest.raises(ConfigError, match=r"caution = -1; give 0"):
        ScaleFree(-1, path=policy_file)
    for thrift in (float("nan"), 30.0):  # so many seconds of reserve are no thrift
        with pytest.raises(ConfigError, match=rf"thrift = {thrift}; give 0 .* to 10"):
            ScaleFree(1.0, thrift, path=policy_file)
    with pytest.raises(ConfigError, match=r"ease_s = -1.0; give the seconds before the end"):
        ScaleFree(1.0, 1.0, -1.0, policy_file)


@pytest.mark.parametrize(
    ("buffer_s", "cap_s", "left", "counted_s"),
    [
        (30.0, 60.0, 1.0, 7.5),  # half full: a quarter of it at thrift 2
        (60.0, 60.0, 1.0, 60.0),  # what is full is played with
        (30.0, 20.0, 1.0, 30.0),
        (0.0, 60.0, 1.0, 0.0),
        (30.0, 60.0, 0.25, 15.0),  # 48 s of video are left of the 96 over which thrift falls
    ],
)
def test_the_thrifty_count_less_of_a_buffer_that_is_not_full(
    buffer_s: float, cap_s: float, left: float, counted_s: float, policy_file: Path
) -> None:
    """The scores are those of somebody without thrift who has so much less in the buffer."""
    rule = PENSIEVE._replace(buffer_cap_ms=1000.0 * cap_s)
    thrifty, plain = ScaleFree(1.0, 2.0, 96.0, policy_file), ScaleFree(1.0, path=policy_file)
    observation = np.zeros((6, 8), dtype=np.float32)
    observation[:, -1] = (0.2, buffer_s / 10.0, 0.25, 0.2, 0.0, left)
    less = observation.copy()
    less[1, -1] = counted_s / 10.0
    for controller, state in ((thrifty, observation), (plain, less)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            controller.reset(0, EpisodeInfo(nominal_ladder(chunks=48).video(), rule=rule))
        controller.act(state)
    np.testing.assert_allclose(thrifty.scores, plain.scores, atol=1e-5)


def test_a_long_stall_costs_the_cautious_more() -> None:
    videos, worth = videos_of(0, 1)
    outage = Trace.from_slots("outage", np.array([20_000.0, 60_000.0]), np.array([60_000.0, 5.0]))
    players = MixedPlayers([outage], videos_on("cpu", videos, worth), 3, "cpu", 0, noise=0.0)
    zero, ones = torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.float64)
    state = begin(players, Sessions(zero, zero, ones, 60.0 * ones), torch.tensor([0.0, 1.0, 3.0]))
    state = state._replace(clock_s=20.0 * ones)
    after, rewards = players.play(state, zero, torch.full((3,), 0.5))
    assert float(rewards[0]) == float(rewards[1])
    stall_s = float(torch.exp(after.delays[0, -1])) - float(state.buffer_ms[0]) / 1000.0
    assert float(rewards[1] - rewards[2]) == pytest.approx(2.0 * (stall_s - 2.0), rel=1e-3)


def test_a_file_that_is_no_policy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"x\.safetensors holds no scale-free controller"):
        ScaleFree(path=path)


def test_a_source_left_out_does_not_teach() -> None:
    one, two = links(2)
    recorded = {"slow": [one] * 5, "quick": [two] * 5}
    names = {link.name for link in training_links(recorded, 0, 60, without=("quick",))}
    assert not any(two.name in name for name in names)
    with pytest.raises(ConfigError, match=r"without = 'nobody' is no source of traces; there are slow, quick"):
        training_links(recorded, 0, 1, without=("nobody",))


def test_whoever_trusts_plays_on_links_that_hold() -> None:
    videos, worth = videos_of(0, 4)
    whole, broken = links(4), breaking_links(links(4), 0, 1.0)
    assert any(one is not two and one.name != two.name for one, two in zip(whole, broken, strict=True))
    players = MixedPlayers(whole, videos_on("cpu", videos, worth), 800, "cpu", 3, breaking=broken)
    players.reset()
    trusting, breaking = players.state.caution == 0.0, players.state.trace >= len(whole)
    assert bool((trusting != breaking).all())
    assert 0.2 < float(trusting.float().mean()) < 0.4
    assert {1.0} < set(players.state.caution[~trusting].tolist())


def test_it_is_found_by_its_name() -> None:
    assert isinstance(load_bitrate_controller("scalefree"), ScaleFree)


def test_an_audience_of_pensieves_has_its_ladder_buffer_round_trip_and_qoe() -> None:
    videos, worth = random_videos(np.random.default_rng(1), 8, PENSIEVES.pensieve_ladder, PENSIEVES.linear_worth)
    assert all(video.bitrates_kbps.tolist() == list(PENSIEVE_KBPS) for video in videos)
    assert all(np.allclose(each, np.array(PENSIEVE_KBPS) / PENSIEVE_KBPS[-1]) for each in worth)
    players = MixedPlayers(links(4), videos_on("cpu", videos, worth), 500, "cpu", 3, audience=PENSIEVES)
    players.reset()
    state = players.state
    assert set(state.cap_ms.tolist()) == {60_000.0}
    assert set(state.rtt_ms.tolist()) == {80.0}
    assert set(state.stall_penalty.tolist()) == set(state.smooth_penalty.tolist()) == {1.0}


def test_the_policy_for_pensieves_ladder_says_so_on_another_one() -> None:
    controller = load_bitrate_controller("scalefree-pensieve")
    play(controller, links(1)[0], nominal_ladder())
    with pytest.warns(UserWarning, match="lowest Mbit/s 0.5 .trained on 0.3 to 0.3"):
        play(controller, links(1)[0], nominal_ladder((500.0, 2500.0), 2.0, 12))


def test_the_safe_policy_is_the_shipped_one_with_thrift_to_the_end() -> None:
    safe, same = load_bitrate_controller("scalefree-safe"), load_bitrate_controller("scalefree(1,3,0)")
    link = links(1)[0]
    assert play(safe, link, nominal_ladder()).qoe == play(same, link, nominal_ladder()).qoe
