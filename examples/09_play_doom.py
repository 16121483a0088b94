"""Play Doom as a team: train two players from what they see, and compare them with chance and a blind rule.

All teams play the same matches. A training of a thousand frames knows little; docs/results/doom.md has longer ones.

python examples/09_play_doom.py [FOLDER]      needs [train,doom,marl] and BenchMARL; about a minute; the run lies there
"""

import sys
from pathlib import Path

import numpy as np

from reelrl.act import VizDoomCoopParallelEnv, VZCoopConfig
from reelrl.act.doom.teams import RandomTeam, SweepingTeam, TrainedTeam, make_env, play, settings_of
from reelrl.cli.main import main
from reelrl.report.intervals import mean_interval, paired_interval
from reelrl.runs.folder import RunFolder

MATCHES = 3


def look_around():
    """The environment itself: PettingZoo's parallel interface, one picture and one action per player."""
    env = VizDoomCoopParallelEnv(VZCoopConfig(num_players=2, skip=4, observation_size=(30, 40)), max_steps=5)
    observations, _ = env.reset(seed=0)
    print({agent: picture.shape for agent, picture in observations.items()}, env.action_space("player_0"))
    env.close()


def train(folder):
    """The same as `reel train doom` with these options: MAPPO of BenchMARL, with small nets."""
    net = "video_encoder_cfg={model_type: cnn, channels: [8, 16], embed_dim: 32}"
    changes = ["task.max_steps=60", "task.observation_size=[30, 40]", f"actor.{net}", f"critic.{net}"]
    changes += ["experiment.on_policy_collected_frames_per_batch=240", "experiment.on_policy_minibatch_size=60"]
    changes += ["experiment.on_policy_n_envs_per_worker=1", "experiment.evaluation=false"]
    options = [word for change in changes for word in ("--set", change)]
    if main(["train", "doom", "--frames", "960", "--output-dir", str(folder), *options]):
        raise SystemExit("the training failed")
    return RunFolder(max(folder.iterdir()))


if __name__ == "__main__":
    look_around()
    run = train(Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "runs")
    teams = {"chance": RandomTeam(), "blind rule": SweepingTeam(), "trained": TrainedTeam(run)}
    env = make_env(settings_of(run))
    returns = {
        name: np.array([play(env, team, seed).reward for seed in range(MATCHES)]) for name, team in teams.items()
    }
    env.close()
    for name, values in returns.items():
        print(f"{name:<11} return {mean_interval(values)}   above chance {paired_interval(values, returns['chance'])}")
