"""Actions that also move whole frames: what they are compared with, and what is not paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from reelrl.cli.main import main
from reelrl.content.clip import concatenate
from reelrl.content.generated.clips import generated_clip
from reelrl.encode import EncoderSettings
from reelrl.encode.features import clip_features
from reelrl.encode.superblock.contestants import MapContestant
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.encode.superblock.evaluate import SuperblockEvaluationPlan, encode_all, with_anchors
from reelrl.encode.superblock.maps import MAP_FEATURES
from reelrl.encode.superblock.over_time import CUT_SHIFT, KEY_SHIFT, rule_shifts
from reelrl.encode.superblock.summary import clip_results
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

FRAMES, SUPERBLOCKS = 10, 4
CLIP = f"generated:street?size=128x96&frames={FRAMES}"


def made(action: str = "map+time", **more: Any) -> SuperblockQpEnv:
    encoder = EncoderSettings(backend="aom", picture_qp=True, qp=40)
    return SuperblockQpEnv(CLIP, action=action, encoder=encoder, **{"reward": "equal_rate", **more})


def moved_by(env: SuperblockQpEnv, level: int) -> tuple[float, list[dict[str, Any]]]:
    """Mean reward and infos of an episode without maps whose frames are all moved alike."""
    env.reset(seed=1)
    steps = [env.step(np.array([3] * SUPERBLOCKS + [level])) for _ in range(FRAMES)]
    return float(np.mean([step[1] for step in steps])), [step[4] for step in steps]


def test_the_key_frame_and_those_after_cuts_are_finer_by_rule() -> None:
    shots = [generated_clip(style, size=(128, 96), frames=3) for style in ("street", "talk")]
    clip = concatenate(shots)
    assert rule_shifts(clip_features(clip), 128, 96) == [KEY_SHIFT, 0, 0, CUT_SHIFT, 0, 0]


@pytest.mark.parametrize("action", ["map+time", "features+time"])
def test_no_decision_is_the_rule_and_earns_nothing(action: str) -> None:
    env = made(action)
    idle = np.array([3] * (SUPERBLOCKS + 1)) if action == "map+time" else np.zeros(len(MAP_FEATURES) + 1)
    env.reset(seed=1)
    steps = [env.step(idle) for _ in range(FRAMES)]
    assert [step[4]["qp"] for step in steps] == [40 + KEY_SHIFT] + [40] * (FRAMES - 1)
    assert all(info["bitstream_size"] == info["baseline_bitstream_size"] for *_, info in steps)
    assert sum(abs(step[1]) for step in steps) < 1e-9


@pytest.mark.parametrize(("level", "steps"), [(2, -4), (4, 4)])
def test_a_constant_moves_psnr_by_a_decibel_and_is_not_paid_for(level: int, steps: int) -> None:
    reward, infos = moved_by(made(), level)
    assert [info["qp"] for info in infos] == [40 + KEY_SHIFT + steps] + [40 + steps] * (FRAMES - 1)
    gained = np.mean([info["psnr"][0] - info["baseline_psnr"][0] for info in infos])
    assert abs(gained) > 1.0
    assert abs(reward) < 0.35 * abs(gained)


def test_what_would_be_paid_for_bytes_alone_is_refused() -> None:
    for reward in ("psnr_gain", "rd", "ssim", "weighted"):
        with pytest.raises(ConfigError, match="use equal_rate"):
            made(reward=reward)
    with pytest.raises(ConfigError, match="leave one out"):
        made(target_kbps=100)
    env = made()
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="this clip has 4 superblocks"):
        env.step(np.full(SUPERBLOCKS, 3))


@pytest.mark.parametrize("action", ["map+time", "features+time"])
def test_the_checker_is_content_and_an_episode_replays_to_its_bytes(action: str) -> None:
    env = made(action)
    check_env(env, skip_render_check=True)
    env.action_space.seed(4)
    env.reset(seed=4)
    for _ in range(FRAMES):
        env.step(env.action_space.sample())
    assert len(set(env.episode_record()["qps"])) > 3
    env.replay(env.episode_record())  # raises where bytes differ


def test_the_rule_over_time_stands_in_every_table() -> None:
    for spec in ("zero-map", "crf:aq-mode=1"):
        assert [each.name for each in with_anchors([MapContestant.parse(spec)])][:2] == ["no-map", "time-rule"]


def test_a_trained_agent_over_time_is_compared_with_the_rule(tmp_path: Path) -> None:
    short = ["--total-iteration", "1", "--max-frames", "4", "--set", "learner.hidden=[8]", "--reward", "equal_rate"]
    asked = ["train", "superblock", "--file", CLIP, "--output-dir", str(tmp_path), "--action", "features+time"]
    assert main([*asked, "--state", "summary", *short]) == 0
    (run,) = tmp_path.iterdir()
    contestants = with_anchors([MapContestant("agent", str(run))])
    assert [each.name for each in contestants] == ["no-map", "time-rule", "agent"]
    plan = SuperblockEvaluationPlan(qps=(30, 36, 42, 48), frames=3, metrics=("psnr_y",))
    points = encode_all(contestants, [generated_clip("talk", size=(192, 128), frames=3)], plan)
    results = clip_results(contestants, points, ["psnr_y"])
    assert [(each.contestant, each.anchor) for each in results] == [("time-rule", "no-map"), ("agent", "time-rule")]
