"""PPO, the network, and `reel train abr`: learning happens, and a stopped run goes on to the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reelrl.agents.ppo import Ppo, PpoSettings, Rollout, advantages, compress, expand, sample
from reelrl.cli.main import main
from reelrl.errors import CheckpointError, ConfigError, ContentError
from reelrl.runs.folder import Run, RunFolder
from reelrl.stream.controllers.learned import Learned, load_policy, save_policy
from reelrl.stream.controllers.network import HINT_EDGES_S, AbrPolicy, make_policy
from reelrl.stream.controllers.protocol import EpisodeInfo
from reelrl.stream.data import generated_traces as generate
from reelrl.stream.data.pools import recorded_traces, training_pool, validation_pools
from reelrl.stream.data.traces import Trace
from reelrl.stream.rollout_envs import TorchPlayers, VectorPlayers, future_rates
from reelrl.stream.simulator.rule import PENSIEVE
from reelrl.stream.simulator.torch_env import TorchAbr
from reelrl.stream.simulator.torch_rule import torch_links
from reelrl.stream.simulator.vector_env import AbrVectorEnv
from reelrl.stream.validation import Validator
from tests.stream.helpers import bumpy_ladder, links

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SHORT = [
    "--set",
    "steps=6000",
    "--set",
    "players=32",
    "--set",
    "links=20",
    "--set",
    "validate_every=1",
    "--set",
    "hidden=16",
]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_compress_and_expand_are_inverse() -> None:
    values = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(expand(compress(values)), values)


def test_advantages_by_hand() -> None:
    """Two steps, then an end: with lambda 1 an advantage is the rest of the rewards less the value."""
    column = torch.tensor
    zeros = torch.zeros(2, 1)
    rollout = Rollout(
        zeros,
        zeros,
        zeros,
        zeros,
        column([[5.0], [2.0]]),
        column([[1.0], [3.0]]),
        column([[False], [True]]),
        column([99.0]),
    )
    got = advantages(rollout, PpoSettings(discount=0.5, trace_decay=1.0))
    torch.testing.assert_close(got, column([[1.0 + 0.5 * 3.0 - 5.0], [3.0 - 2.0]]))


def test_samples_follow_the_probabilities() -> None:
    logits = torch.log(torch.tensor([0.7, 0.2, 0.1])).repeat(20_000, 1)
    actions, log_probs = sample(logits, torch.Generator().manual_seed(0))
    shares = torch.bincount(actions) / len(actions)
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.2, 0.1]), atol=0.01, rtol=0.0)
    torch.testing.assert_close(log_probs.exp(), torch.tensor([0.7, 0.2, 0.1])[actions])


def test_memory_starts_anew_with_every_video() -> None:
    """Two videos in a row leave the same memory as the second alone."""
    env = TorchAbr(links(4)[:1], bumpy_ladder(6), 1, preset="pensieve", noise=False)
    players = TorchPlayers(env)
    first = players.reset()[0]
    seen = [first, *(players.step(torch.tensor([k % 6]))[0] for k in range(9))]
    torch.testing.assert_close(seen[5], first, rtol=0.0, atol=0.0)
    rates = torch.log(seen[4][0, 2, 3:8] * 8.0 + 1e-3)
    torch.testing.assert_close(seen[4][0, 0, -1], rates.min())


def test_hints_are_the_true_future_rates() -> None:
    trace = Trace.from_slots("t", [4000.0, 6000.0], [1000.0, 3000.0])
    table = torch_links([trace], PENSIEVE, CPU)
    hints = future_rates(table, torch.zeros(1, dtype=torch.int64), torch.tensor([2.0], dtype=torch.float64))
    mbps = (2 * hints.double()).exp()[0] - 1e-2
    edges = np.array(HINT_EDGES_S) + 2.0
    passed = [
        sum(0.95 * (1.0 if (t % 10) < 4 else 3.0) * 0.01 for t in np.arange(0, edge - 0.005, 0.01)) for edge in edges
    ]
    np.testing.assert_allclose(mbps.numpy(), np.diff(passed) / np.diff(edges), rtol=0.02)


@pytest.mark.parametrize("kind", ["vector", "torch"])
def test_ppo_learns_to_leave_the_lowest_rung(kind: str) -> None:
    """A fast, steady link: a minute's worth of steps is enough to find the high rungs."""
    trace = Trace.from_slots("fast", [1000.0] * 60, [20_000.0] * 60)
    arguments = (trace, bumpy_ladder(10), 128)
    players = (
        VectorPlayers(AbrVectorEnv(*arguments, preset="pensieve", infos=False), 0)
        if kind == "vector"
        else TorchPlayers(TorchAbr(*arguments, preset="pensieve"))
    )
    policy = make_policy(6, 32, 0, CPU)
    ppo = Ppo(policy, PpoSettings(learning_rate=3e-3), torch.Generator().manual_seed(0))
    observations, hints = players.reset()
    rewards = []
    for step in range(12):
        rollout, observations, hints = ppo.collect(players, observations, hints, 9)
        rewards.append(float(rollout.rewards.mean()))
        ppo.update(rollout, step / 12)
    assert rewards[-1] > rewards[0] + 0.5
    assert rewards[-1] > 2.5


def test_policies_survive_a_round_trip_and_refuse_strangers(tmp_path: Path) -> None:
    policy = make_policy(6, 16, 3, CPU)
    save_policy(policy, tmp_path / "p.safetensors", {"score": 1.0})
    again, facts = load_policy(tmp_path / "p.safetensors")
    state = torch.rand(4, 6, 9)
    torch.testing.assert_close(again.logits(state), policy.logits(state), rtol=0.0, atol=0.0)
    assert facts == {"score": 1.0}
    controller = Learned(tmp_path / "p.safetensors")
    with pytest.raises(ConfigError, match="6 rungs"):
        controller.reset(0, EpisodeInfo(bumpy_ladder().video().__class__(np.array([300.0]), 4.0, np.ones((3, 1)))))
    (tmp_path / "bad.safetensors").write_bytes(b"not a policy")
    with pytest.raises(CheckpointError, match=r"bad\.safetensors"):
        load_policy(tmp_path / "bad.safetensors")


def test_the_shipped_policy_beats_the_lowest_rung_where_links_break() -> None:
    from reelrl.stream.data.ladders import nominal_ladder
    from reelrl.stream.playback import load_bitrate_controller, play

    broken = [generate.with_outages(generate.mobile_trace(rng), rng) for rng in map(np.random.default_rng, range(30))]
    results = {
        name: np.mean([play(load_bitrate_controller(name), trace, nominal_ladder()).qoe for trace in broken])
        for name in ("ppo", "lowest")
    }
    assert results["ppo"] > results["lowest"]


def test_the_validator_and_the_scalar_session_agree() -> None:
    from reelrl.stream.playback import play

    class Greedy(Learned):
        def __init__(self, policy: AbrPolicy) -> None:
            self.policy, self.sampled, self.path, self.facts = policy, False, Path("greedy"), {}
            self._warned = False

    policy = make_policy(6, 16, 1, CPU)
    traces = links(6)
    scores = Validator({"all": traces}, bumpy_ladder()).score(policy)
    played = [play(Greedy(policy), trace, bumpy_ladder()).qoe for trace in traces]
    assert scores["all"] == pytest.approx(np.mean(played), abs=1e-6)


def test_pools_depend_on_the_seed_only_and_never_open_test_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REELRL_DATA", raising=False)
    first, again = training_pool(3, 20), training_pool(3, 20)
    assert all(np.array_equal(a.bytes_per_s, b.bytes_per_s) for a, b in zip(first, again, strict=True))
    assert set(validation_pools()) == {"recorded", "mobile", "outages"}
    (tmp_path / "test").mkdir()
    with pytest.raises(ContentError, match="test folder"):
        recorded_traces("train", tmp_path / "test")


@pytest.mark.parametrize("policy", ["pensieve", pytest.param("scalefree", marks=pytest.mark.long)])
def test_a_stopped_training_goes_on_to_the_same_bytes(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REELRL_DATA", raising=False)
    short = [*SHORT, "--set", f"policy={policy}", "--set", "videos=12", "--set", "validate_every=2"]
    assert main(["train", "abr", "--runs", str(tmp_path / "whole"), *short]) == 0
    whole = RunFolder(tmp_path / "whole" / "0001")

    from reelrl.stream.train import AbrTrainer

    original = AbrTrainer.train

    def interrupted(self: AbrTrainer, run: Run, *_: object) -> float:
        def stop(step: int, _: dict[str, float]) -> None:
            if step > 3000:
                raise KeyboardInterrupt

        return original(self, run, stop)

    monkeypatch.setattr(AbrTrainer, "train", interrupted)
    assert main(["train", "abr", "--runs", str(tmp_path / "halves"), *short]) == 130
    assert f"reel train abr --resume {tmp_path / 'halves' / '0001-abr-ppo'}" in capsys.readouterr().out
    monkeypatch.setattr(AbrTrainer, "train", original)
    assert main(["train", "abr", "--resume", str(tmp_path / "halves" / "0001")]) == 0
    halves = RunFolder(tmp_path / "halves" / "0001")
    assert list(halves.metrics()) == list(whole.metrics())
    ours, theirs = halves.checkpoints.latest(), whole.checkpoints.latest()
    assert ours is not None
    assert theirs is not None
    assert all(np.array_equal(ours.tensors[name], theirs.tensors[name]) for name in theirs.tensors)


def _with_metadata(path: Path, **metadata: str) -> Path:
    from safetensors.numpy import save_file

    save_file({"layers.0.weight": np.zeros((2, 2), np.float32)}, path, metadata)
    return path


@pytest.mark.parametrize(
    "metadata",
    [
        {"policy": "{}"},
        {"shape": "[]", "facts": "{}"},
        {"shape": "{}", "facts": "{}"},
        {"shape": '{"rungs": 1000000000, "columns": 8, "hidden": 16}', "facts": "{}"},
        {"shape": '{"rungs": "6", "columns": 8, "hidden": 16}', "facts": "{}"},
        {"shape": '{"rungs": 6, "columns": 8, "hidden": 16}', "facts": "{}"},
        {"shape": "[" * 5000, "facts": "{}"},
    ],
)
def test_a_policy_of_another_kind_is_no_bitrate_controller(tmp_path: Path, metadata: dict[str, str]) -> None:
    with pytest.raises(CheckpointError, match="holds no controller"):
        Learned(_with_metadata(tmp_path / "other.safetensors", **metadata))


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    policy = make_policy(6, 16, 3, CPU)
    with torch.no_grad():
        next(policy.actor.parameters())[0, 0] = torch.nan
    save_policy(policy, tmp_path / "p.safetensors", {})
    with pytest.raises(CheckpointError, match="not finite"):
        Learned(tmp_path / "p.safetensors")


def test_a_run_of_another_command_is_no_bitrate_controller(tmp_path: Path) -> None:
    with Run.create(tmp_path / "runs", PpoSettings(), stage="minigop", name="minigop-sac", seed=0):
        pass
    with pytest.raises(CheckpointError, match="is a run of `reel train minigop`; give one of `reel train abr`"):
        Learned(tmp_path / "runs" / "0001")
