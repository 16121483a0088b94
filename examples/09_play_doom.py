"""Play Doom as a team: train two players from what they see, and compare them with chance and a blind rule.

Intruders come to the players by themselves, and hits are all that counts here: with actions held for 8 tics, rewards
that follow soon (gamma 0.6) and large steps, two thousand frames are enough to earn about three times what chance does.
They are not enough to beat `sweep`, a rule that turns and shoots; docs/results/doom.md has longer trainings.

python examples/09_play_doom.py [FOLDER]      needs [train,doom,marl] and BenchMARL; about a minute; the run lies there
"""

import sys
from pathlib import Path

from reelrl.act import VizDoomCoopParallelEnv, VZCoopConfig
from reelrl.act.marl.evaluate import BASELINES, play_all, summarise
from reelrl.cli.main import main
from reelrl.runs.folder import RunFolder

MATCHES = 4
SMALL = "{model_type: cnn, channels: [8, 16], embed_dim: 32}"
SETTINGS = [
    "task.observation_size=[30, 40]",
    "task.skip=8",
    "task.max_steps=100",
    "task.rewards={kill: 1, hit: 1, death: 0, damage_taken: 0, goal: 5, scenario: 0}",
    f"actor.video_encoder_cfg={SMALL}",
    f"critic.video_encoder_cfg={SMALL}",
    "algorithm.clip_epsilon=0.5",
    "algorithm.entropy_coef=0.002",
    "experiment.gamma=0.6",
    "experiment.lr=0.003",
    "experiment.clip_grad_val=5.0",
    "experiment.on_policy_collected_frames_per_batch=200",
    "experiment.on_policy_n_envs_per_worker=1",
    "experiment.on_policy_n_minibatch_iters=6",
    "experiment.evaluation=false",
]


def look_around():
    """The environment itself: PettingZoo's parallel interface, one picture and one action per player."""
    env = VizDoomCoopParallelEnv(VZCoopConfig(num_players=2, skip=4, observation_size=(30, 40)), max_steps=5)
    observations, _ = env.reset(seed=0)
    print({agent: picture.shape for agent, picture in observations.items()}, env.action_space("player_0"))
    env.close()


def train(folder):
    """The same as `reel train doom` with these options: MAPPO of BenchMARL, with small nets."""
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    if main(["train", "doom", "--steps", "2000", "--output-dir", str(folder), *options]):
        raise SystemExit("the training failed")
    return RunFolder(max(folder.glob("*-doom-mappo")))


if __name__ == "__main__":
    look_around()
    run = train(Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "runs")
    played = play_all(str(run.folder), [*BASELINES, str(run.folder)], MATCHES, seed=0)  # all teams in the same matches
    for row in summarise(played, [str(run.folder)]):
        print(f"{Path(row.team).name:<16} return {row.returns}   above chance {row.above_chance or ''}")
