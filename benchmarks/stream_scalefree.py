"""The scale-free bitrate policy on a GPU: simulation speed, training speed, training. Needs torch and numpy.

python benchmarks/stream_scalefree.py --export sources.npz          where the data is: recorded links in one file
python benchmarks/stream_scalefree.py --sources sources.npz --seconds 60 --speed    speeds, then a short training
python benchmarks/stream_scalefree.py --sources sources.npz --without puffer --seconds 500 --out $OUT/no-puffer
python benchmarks/stream_scalefree.py --convert no-puffer.npz no-puffer.safetensors    for `reel evaluate abr`
"""

from __future__ import annotations

import argparse
import importlib.util
import json
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
from reelrl.stream.data.ladders import Ladder, nominal_ladder, read_ladder  # noqa: E402
from reelrl.stream.data.pools import data_folder  # noqa: E402
from reelrl.stream.data.traces import Trace  # noqa: E402
from reelrl.stream.scalefree.links import sources, training_links, validation_links  # noqa: E402
from reelrl.stream.scalefree.network import make_scale_free  # noqa: E402
from reelrl.stream.scalefree.players import AUDIENCES, MixedPlayers  # noqa: E402
from reelrl.stream.scalefree.random_videos import random_videos, videos_on  # noqa: E402
from reelrl.stream.scalefree.validation import ScaleFreeValidator  # noqa: E402


def export(path: Path) -> None:
    parts: dict[str, Any] = {}
    for name, traces in sources().items():
        parts[f"{name}.names"] = np.array([trace.name for trace in traces])
        parts[f"{name}.slots"] = np.array([len(trace) for trace in traces])
        parts[f"{name}.ms"] = np.concatenate([trace.durations_ms for trace in traces]).astype(np.float32)
        parts[f"{name}.kbps"] = np.concatenate([trace.kbps for trace in traces]).astype(np.float32)
    ladder = read_ladder(data_folder("videos/envivio") or "nominal")
    np.savez_compressed(path, sizes=ladder.video().sizes_bytes, rates=ladder.bitrates_kbps, **parts)
    print(f"wrote  {path}  {path.stat().st_size / 1e6:.1f} MB")


def load(path: Path | None) -> tuple[dict[str, list[Trace]], Ladder]:
    if path is None:
        return sources(), nominal_ladder()
    with np.load(path, allow_pickle=False) as saved:
        recorded = {}
        for name in sorted(key.removesuffix(".slots") for key in saved.files if key.endswith(".slots")):
            ends = np.cumsum(saved[f"{name}.slots"])[:-1]
            columns = [np.split(saved[f"{name}.{key}"].astype(np.float64), ends) for key in ("ms", "kbps")]
            recorded[name] = [
                Trace.from_slots(str(title), ms, kbps)
                for title, ms, kbps in zip(saved[f"{name}.names"], *columns, strict=True)
            ]
        return recorded, Ladder("envivio", saved["rates"], 4.0, saved["sizes"])


def speed(links: list[Trace], device: str, count: int, compiled: bool) -> None:
    videos = videos_on(device, *random_videos(np.random.default_rng(0), 4096))
    players = MixedPlayers(links, videos, count, device, 0, compiled=compiled)
    players.reset()
    rungs = videos.present[players.state.video].sum(1)
    draws, noise = players._uniform(12), players._uniform(2)
    actions = (players._uniform(1)[:, 0] * rungs).long()
    best = {"simulated": 0.0, "with features": 0.0}
    for name in best:
        for _ in range(5):
            _sync(device)
            start = time.perf_counter()
            for _ in range(40):
                if name == "simulated":
                    players.state, _, _ = players._forward(players.state, actions, draws, noise)
                else:
                    players.step(actions)
            _sync(device)
            best[name] = max(best[name], 40 * count / (time.perf_counter() - start))
    told = "   ".join(f"{name} {value:.3e} player-steps/s" for name, value in best.items())
    print(f"speed  {'compiled' if compiled else 'eager':<9} {count} players   {told}", flush=True)


def train(args: argparse.Namespace, device: str) -> None:
    compiled = device != "cpu" and not args.eager
    recorded, ladder = load(args.sources)
    without, audience = tuple(args.without), AUDIENCES[args.audience]
    links = training_links(recorded, args.seed, args.links, args.outage_share, without)
    videos = videos_on(
        device,
        *random_videos(np.random.default_rng(args.seed), args.videos, audience.pensieve_ladder, audience.linear_worth),
    )
    players = MixedPlayers(links, videos, args.players, device, args.seed, compiled=compiled, audience=audience)
    policy, average = (make_scale_free(args.hidden, args.seed, torch.device(device)) for _ in range(2))
    changes = dict(pair.split("=") for pair in args.ppo)
    numbers = {key: type(getattr(PpoSettings(), key))(float(value)) for key, value in changes.items()}
    settings = PpoSettings(**{"epochs": 1, "minibatches": 8, "discount": 0.993, "learning_rate": 1.5e-3, **numbers})
    ppo = Ppo(policy, settings, torch.Generator(device).manual_seed(args.seed), compiled=compiled, half=args.half)
    video = ladder.video()
    validator = ScaleFreeValidator(
        validation_links(recorded, without), video, video.bitrates_kbps / video.bitrates_kbps[-1], torch.device(device)
    )
    observations, hints = players.reset()
    best: dict[str, float] = {"score": -np.inf}
    step = updates = 0
    print(f"ready  {len(links)} links, without {without or 'nothing'}", flush=True)
    rollout, observations, hints = ppo.collect(players, observations, hints, args.rollout)
    ppo.update(rollout, 0.0)  # compiles
    start, shown_s = time.perf_counter(), 0.0
    while (spent := time.perf_counter() - start) < args.seconds:
        rollout, observations, hints = ppo.collect(players, observations, hints, args.rollout)
        metrics = ppo.update(rollout, spent / args.seconds)
        # Early on the learner runs away from any average; later the average is what is kept.
        follow(average, policy, max(args.follow, 1.0 / (updates + 1)))
        step += args.players * args.rollout
        updates += 1
        spent = time.perf_counter() - start
        if spent - shown_s < args.seconds / 8 and spent < args.seconds:
            continue
        shown_s = spent
        scores = validator.score(average)
        if scores["score"] > best["score"]:
            best = scores
            if args.out:
                facts = {"step": step, "without": list(without), "audience": args.audience, "seed": args.seed}
                save(average, args.out, facts | scores)
        shown = "   ".join(f"{name} {value:.4f}" for name, value in scores.items())
        print(
            f"train  {'+'.join(without) or 'all'} {args.seed}   {step:.2e} steps {updates} updates   {spent:.0f} s   "
            f"{step / spent:.2e} steps/s   {shown}   entropy {metrics['entropy']:.3f}",
            flush=True,
        )
    _profile(ppo, players, observations, hints, args)
    print(f"best   {'+'.join(without) or 'all'} {args.seed}   {json.dumps(best)}", flush=True)


def _profile(ppo: Ppo, players: MixedPlayers, observations: Any, hints: Any, args: argparse.Namespace) -> None:
    device = str(players.device)
    _sync(device)
    begun = time.perf_counter()
    rollout, _, _ = ppo.collect(players, observations, hints, args.rollout)
    _sync(device)
    collected = time.perf_counter()
    ppo.update(rollout, 1.0)
    _sync(device)
    steps = args.players * args.rollout
    print(
        f"parts  collect {(collected - begun) / steps * 1e9:.1f} ns a step, "
        f"update {(time.perf_counter() - collected) / steps * 1e9:.1f} ns a step",
        flush=True,
    )


def save(policy: Any, place: str, facts: dict[str, Any]) -> None:
    tensors = {name: tensor.cpu().numpy() for name, tensor in policy.actor.state_dict().items()}
    np.savez(f"{place}.npz", facts=json.dumps(facts), hidden=policy.hidden, **tensors)


def convert(source: Path, target: Path) -> None:
    """A policy that was trained where the package is not installed, as `reel evaluate abr` reads it."""
    from reelrl.stream.scalefree.controller import save_scale_free

    with np.load(source, allow_pickle=False) as saved:
        policy = make_scale_free(int(saved["hidden"]), 0, torch.device("cpu"))
        names = policy.actor.state_dict()
        policy.actor.load_state_dict({name: torch.from_numpy(saved[name]) for name in names})
        facts = json.loads(str(saved["facts"]))
    save_scale_free(policy, target, facts)
    print(f"wrote  {target}  {facts}")


def _sync(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", type=Path, help="write the recorded links and the ladder to this file and stop")
    parser.add_argument("--convert", type=Path, nargs=2, metavar=("NPZ", "SAFETENSORS"), help="convert and stop")
    parser.add_argument("--sources", type=Path, help="recorded links written by --export; REELRL_DATA's without it")
    parser.add_argument("--without", nargs="*", default=[], metavar="SOURCE", help="leave these sources out")
    parser.add_argument("--audience", choices=AUDIENCES, default="everyone", help="who plays")
    parser.add_argument("--links", type=int, default=12_000)
    parser.add_argument("--videos", type=int, default=4096)
    parser.add_argument("--outage-share", type=float, default=0.45)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--players", type=int, default=65_536)
    parser.add_argument("--rollout", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--follow", type=float, default=0.005)
    parser.add_argument("--ppo", nargs="*", default=[], metavar="KEY=VALUE", help="PpoSettings, e.g. trace_decay=0.98")
    parser.add_argument("--speed", action="store_true", help="first, how fast players are simulated")
    parser.add_argument("--speed-players", type=int, default=2**20)
    parser.add_argument("--out", help="where the trained policy goes, without .npz")
    parser.add_argument("--half", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    parser.add_argument("--eager", action="store_true", help="do not compile")
    args = parser.parse_args()
    if args.export:
        return export(args.export)
    if args.convert:
        return convert(*args.convert)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"device {name}   torch {torch.__version__}   python {sys.version.split()[0]}", flush=True)
    torch.set_float32_matmul_precision("high")
    if args.speed:
        links = training_links(load(args.sources)[0], 0, 2000, args.outage_share)
        for compiled in (False, True)[: 1 + (not args.eager)]:
            speed(links, device, args.speed_players, compiled)
    if args.seconds > 0:
        train(args, device)
    return None


if __name__ == "__main__":
    main()
