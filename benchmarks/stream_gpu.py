"""The streaming simulator and its training on a GPU, in one command that needs torch, numpy and this checkout only.

python benchmarks/stream_gpu.py                        correctness, speed, a short training on generated links
python benchmarks/stream_gpu.py --export pool.npz      where the data is: the training links in one file
python benchmarks/stream_gpu.py --pool pool.npz --steps 4e8 --first-seed 1 --out $OUT     train on them, keep policies
python benchmarks/stream_gpu.py --convert policy-1.npz policy-1.safetensors     for `reel evaluate abr`
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
if importlib.util.find_spec("gymnasium") is None or importlib.util.find_spec("reelrl") is None:
    # `import reelrl` registers environments with gymnasium; without it the submodules used here still work.
    package = types.ModuleType("reelrl")
    package.__path__ = [str(ROOT / "src" / "reelrl")]
    sys.modules["reelrl"] = package

from reelrl.agents.ppo import Ppo, PpoSettings, follow  # noqa: E402
from reelrl.stream.controllers.network import make_policy  # noqa: E402
from reelrl.stream.data.ladders import Ladder, nominal_ladder, read_ladder  # noqa: E402
from reelrl.stream.data.pools import OUTAGE_SHARE, data_folder, training_pool, validation_pools  # noqa: E402
from reelrl.stream.data.traces import Trace  # noqa: E402
from reelrl.stream.rollout_envs import TorchPlayers  # noqa: E402
from reelrl.stream.simulator.environment import Environment  # noqa: E402
from reelrl.stream.simulator.rule import named_rule  # noqa: E402
from reelrl.stream.simulator.torch_env import TorchAbr  # noqa: E402
from reelrl.stream.validation import Validator  # noqa: E402

Pools = dict[str, list[Trace]]


def pack(traces: list[Trace], prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}.slots": np.array([len(t) for t in traces]),
        f"{prefix}.ms": np.concatenate([t.durations_ms for t in traces]).astype(np.float32),
        f"{prefix}.kbps": np.concatenate([t.kbps for t in traces]).astype(np.float32),
    }


def unpack(saved: Any, prefix: str) -> list[Trace]:
    ends = np.cumsum(saved[f"{prefix}.slots"])[:-1]
    columns = (np.split(saved[f"{prefix}.{name}"].astype(np.float64), ends) for name in ("ms", "kbps"))
    return [Trace.from_slots(f"{prefix}-{i}", ms, kbps) for i, (ms, kbps) in enumerate(zip(*columns, strict=True))]


def export(path: Path, count: int, outage_share: float) -> None:
    ladder = read_ladder(data_folder("videos/envivio") or "nominal")
    parts = pack(training_pool(0, count, outage_share), "train")
    for name, traces in validation_pools().items():
        parts |= pack(traces, f"validation.{name}")
    np.savez_compressed(path, sizes=ladder.video().sizes_bytes, kbps=ladder.bitrates_kbps, **parts)
    print(f"wrote  {path}  {path.stat().st_size / 1e6:.1f} MB")


def convert(source: Path, target: Path) -> None:
    """A policy that was trained where safetensors was missing, as `reel evaluate abr` reads it."""
    from reelrl.stream.controllers.learned import save_policy

    with np.load(source, allow_pickle=False) as saved:
        tensors = {name: torch.from_numpy(saved[name]) for name in saved.files if name[0].isdigit()}
        facts = {"step": int(saved["step"]), "score": float(saved["score"])}
    policy = make_policy(6, tensors["0.weight"].shape[0], 0, torch.device("cpu"))
    policy.actor.load_state_dict(tensors)
    save_policy(policy, target, facts)
    print(f"wrote  {target}  {facts}")


def load(path: Path | None, count: int) -> tuple[list[Trace], Pools, Ladder]:
    if path is None:
        return training_pool(0, count), validation_pools(), nominal_ladder()
    with np.load(path, allow_pickle=False) as saved:
        names = [key.split(".")[1] for key in saved.files if key.startswith("validation.") and key.endswith(".slots")]
        pools = {name: unpack(saved, f"validation.{name}") for name in names}
        ladder = Ladder("envivio", saved["kbps"], 4.0, saved["sizes"])
        return unpack(saved, "train"), pools, ladder


def check(links: list[Trace], ladder: Ladder, device: str) -> None:
    """Step by step against the scalar rule, for both presets."""
    for preset in ("pensieve", None):
        batch = TorchAbr(links, ladder, len(links), device=device, preset=preset, noise=False, random_start=False)
        judges = [Environment(t, ladder, rule=named_rule(preset, noise=False)) for t in links]
        batch.reset(traces=torch.arange(len(links), device=device))
        for judge in judges:
            judge.get_video_chunk(1)
        worst = 0.0
        actions = np.random.default_rng(0).integers(0, 6, (batch.video.chunks - 1, len(links)))
        for row in actions:
            _, _, _, infos = batch.step(torch.as_tensor(row, device=device))
            got = [judge.get_video_chunk(int(a)) for judge, a in zip(judges, row, strict=True)]
            for name, index, scale in (("delay_ms", 0, 1.0), ("buffer_s", 2, 1e3), ("rebuffer_s", 3, 1e3)):
                expected = np.array([chunk[index] for chunk in got])
                worst = max(worst, float(np.abs(infos[name].cpu().numpy() - expected).max()) * scale)
        print(f"check  {preset or 'default':<9} {actions.size} steps   largest difference {worst:.2e} ms", flush=True)


def speed(links: list[Trace], ladder: Ladder, device: str, count: int, compiled: bool) -> None:
    env = TorchAbr(links, ladder, count, device=device, preset="pensieve", compiled=compiled)
    env.reset()
    actions = torch.randint(6, (8, count), device=device)
    best = 0.0
    for _ in range(6):
        _sync(device)
        start = time.perf_counter()
        for k in range(47):  # one whole episode, its restart included
            env.step(actions[k % 8])
        _sync(device)
        best = max(best, count * 47 / (time.perf_counter() - start))
    print(f"speed  {'compiled' if compiled else 'eager':<9} {count} players   {best:.3e} player-steps/s", flush=True)


def train(
    links: list[Trace], pools: Pools, ladder: Ladder, device: str, args: argparse.Namespace, seed: int
) -> dict[str, float]:
    compiled = device != "cpu" and not args.eager
    env = TorchAbr(links, ladder, args.players, device=device, preset="pensieve", random_seed=seed, compiled=compiled)
    players = TorchPlayers(env, compiled=compiled)
    policy = make_policy(6, args.hidden, seed, torch.device(device))
    average = make_policy(6, args.hidden, seed, torch.device(device))
    changes = dict(pair.split("=") for pair in args.ppo)
    numbers = {key: type(getattr(PpoSettings(), key))(float(value)) for key, value in changes.items()}
    settings = PpoSettings(**{"minibatches": 16, **numbers})
    ppo = Ppo(policy, settings, torch.Generator(device).manual_seed(seed), compiled=compiled)
    validator = Validator(pools, ladder)
    observations, hints = players.reset()
    best: dict[str, float] = {"score": -np.inf}
    step = updates = 0
    start = time.perf_counter()
    per_update = args.players * 47
    every = max(1, int(args.steps / per_update / 25))
    while step < args.steps:
        rollout, observations, hints = ppo.collect(players, observations, hints, 47)
        metrics = ppo.update(rollout, step / args.steps)
        follow(average, policy, 0.04)
        step += per_update
        updates += 1
        if updates % every and step < args.steps:
            continue
        scores = validator.score(average)
        if scores["score"] > best["score"]:
            best = scores
            if args.out:
                tensors = {name: tensor.cpu().numpy() for name, tensor in average.actor.state_dict().items()}
                np.savez(Path(args.out) / f"policy-{seed}.npz", **tensors, step=step, score=scores["score"])
        spent = time.perf_counter() - start
        shown = "   ".join(f"{name} {value:.4f}" for name, value in scores.items())
        print(
            f"train  seed {seed}   {step:.3e} steps   {spent:.0f} s   {step / spent:.2e} steps/s   {shown}   "
            f"entropy {metrics['entropy']:.3f}",
            flush=True,
        )
    return best


def _sync(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", type=Path, help="write the training and validation links to this file and stop")
    parser.add_argument("--convert", type=Path, nargs=2, metavar=("NPZ", "SAFETENSORS"), help="convert and stop")
    parser.add_argument("--pool", type=Path, help="links written by --export; generated ones without it")
    parser.add_argument("--links", type=int, default=6000)
    parser.add_argument("--outage-share", type=float, default=OUTAGE_SHARE)
    parser.add_argument("--steps", type=float, default=1e8)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--players", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--ppo", nargs="*", default=[], metavar="KEY=VALUE", help="PpoSettings, e.g. trace_decay=0.98")
    parser.add_argument("--speed-players", type=int, default=2**20)
    parser.add_argument("--out", help="folder for the trained policies")
    parser.add_argument("--eager", action="store_true", help="do not compile")
    args = parser.parse_args()
    if args.export:
        return export(args.export, args.links, args.outage_share)
    if args.convert:
        return convert(*args.convert)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"device {name}   torch {torch.__version__}   python {sys.version.split()[0]}", flush=True)
    torch.set_float32_matmul_precision("high")
    links, pools, ladder = load(args.pool, args.links)
    check(links[:: max(1, len(links) // 100)], ladder, device)
    speed(links, ladder, device, args.speed_players, compiled=False)
    if not args.eager:
        speed(links, ladder, device, args.speed_players, compiled=True)
    for seed in range(args.first_seed, args.first_seed + (args.seeds if args.steps > 0 else 0)):
        best = train(links, pools, ladder, device, args, seed)
        print(f"best   seed {seed}   " + "   ".join(f"{key} {value:.4f}" for key, value in best.items()), flush=True)
    return None


if __name__ == "__main__":
    main()
