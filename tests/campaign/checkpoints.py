"""What a training leaves: run folders with checkpoints, policies, weights, rules; loaded, resumed and asked to act."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.act.location.frame_reader.net import FrameReaderNet, FrameReaderSettings
from reelrl.act.location.model.net import CrossEgoVideoLocationNet
from reelrl.act.location.model.settings import LocationNetSettings
from reelrl.encode.minigop.controllers import learned as learned_minigop
from reelrl.encode.minigop.controllers.imitation import INPUTS, Imitation
from reelrl.encode.minigop.protocols import MiniGopEpisode, MiniGopRequest, Situation
from reelrl.encode.minigop.state import NAMES
from reelrl.encode.superblock import learned as learned_maps
from reelrl.runs import checkpoint_file, checkpoints
from reelrl.runs.folder import Run, RunFolder
from reelrl.runs.policy_file import Policy
from reelrl.see.embeddings import file as embedding_file
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.trained import load_trained
from reelrl.see.settings import AutoEncoderSettings
from reelrl.see.train import AutoEncoderTraining
from reelrl.see.weights import load_weights, save_weights
from reelrl.stream.controllers.learned import Learned, save_policy
from reelrl.stream.controllers.network import AbrPolicy
from tests.campaign.mutations import mutated_bytes, mutated_json, replace_by_something_else
from tests.campaign.safetensors_edits import mutated_safetensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    from tests.campaign.trial import Feed

SMALL = AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2)))
EPISODE = MiniGopEpisode("a", 64, 64, 20, Fraction(25), "vbr", 60.0, 48_000.0, 1.0, 0, 0)
REQUEST = MiniGopRequest(0, 0, 0, 4, 40, (40, 42, 41, 42), 48_000.0, 20, {"intra": 1.0, "inter": 1.0, "scene_cut": 0.0})


def make_sources(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    layers = _layers(rng, 12, 8, 6)
    facts: dict[str, Any] = {"stage": "superblock", "state": "features", "action": "map", "normalisation": None}
    Policy(layers, "tanh", options=(3, 3), levels=(-1.0, 0.0, 1.0), facts=facts).save(folder / "map.safetensors")
    facts = {"stage": "minigop", "base": "", "max_delta": 6.0, "sees": list(NAMES)}
    minigop = Policy(_layers(rng, len(NAMES), 8, 1), "relu", low=(-1.0,), high=(1.0,), bounded="tanh", facts=facts)
    minigop.save(folder / "minigop.safetensors")
    save_policy(AbrPolicy(6, hidden=8), folder / "abr.safetensors", {"step": 1})
    save_weights(StreamingAutoEncoder(SMALL), folder / "see.safetensors")
    torch.save(StreamingAutoEncoder(SMALL).state_dict(), folder / "see.pth")
    small = FrameReaderSettings(
        places=4, players=2, picture=(24, 32), channels=(4, 4), blocks=(1, 0), embed_dim=8, column_dim=8
    )
    FrameReaderNet(small).save(folder / "frame-reader.safetensors")
    location = LocationNetSettings(num_places=4, embed_dim=10, proj_dim=8, fused_agent_dim=8, hidden_dim=16)
    CrossEgoVideoLocationNet(location).save(folder / "location.safetensors")
    Imitation([0.1] * len(INPUTS)).save(folder / "imitation.json")
    checkpoint_file.save(folder / "file.pt", 3, {"w": np.ones((4, 3), np.float32)}, {"chance": [1, 2], "x": {"y": 0.5}})
    seen = [rng.normal(size=(3, 2, 4, 4)).astype(np.float32)]
    embedding_file.write_embeddings(folder / "seen.emb", seen, embedding_file.Quantiser((0.0, 0.1), (0.05, 0.1)))
    _make_run(folder / "runs")


def _layers(rng: np.random.Generator, *widths: int) -> list[Any]:
    pairs = itertools.pairwise(widths)
    return [(rng.normal(size=(b, a)).astype(np.float32), np.zeros(b, np.float32)) for a, b in pairs]


def _make_run(root: Path) -> None:
    settings = AutoEncoderTraining(source="ale:Breakout", model=SMALL)
    with Run.create(root, settings, stage="autoencoder", name="test", seed=0, tensorboard=False) as run:
        for step in (1, 2):
            run.log_metrics(step, {"loss": 1.0 / step})
            run.log_episode({"episode": step, "return": 2.0})
            run.checkpoint(step, {"w": np.full(5, step, np.float32)}, {"learner": {"chance": [1, 2]}})


def break_one(sources: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
    source = chance.choice([*sorted(sources.iterdir()), *[sources / "runs"] * 5])
    if source.name == "runs":
        yield from _break_run(source, folder, outside, chance)
        return
    path = folder / source.name
    data = source.read_bytes()
    breaker: Callable[[bytes, Random], bytes] = mutated_bytes
    if path.suffix == ".safetensors":
        breaker = mutated_safetensors
    elif path.suffix == ".json":
        breaker = _json_bytes
    elif path.suffix == ".emb" and chance.random() < 0.6:
        breaker = _sealed
    elif path.name == "file.pt" and chance.random() < 0.7:
        breaker = mutated_safetensors
    path.write_bytes(breaker(data, chance))
    if chance.random() < 0.05:
        replace_by_something_else(path, outside, chance)
    feed = FEEDS[source.name]
    yield source.name, lambda: feed(path)


def _json_bytes(data: bytes, chance: Random) -> bytes:
    return mutated_json(data.decode(), chance)


def _sealed(data: bytes, chance: Random) -> bytes:
    """Damage with a checksum that fits."""
    return embedding_file._sealed(mutated_bytes(data, chance)[:100_000])


# -- a run folder ----------------------------------------------------------------------------------------------------


def _break_run(runs: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
    original = next(runs.iterdir())
    run = folder / original.name
    shutil.copytree(original, run)
    files = sorted(path for path in run.rglob("*") if path.is_file())
    for path in chance.sample(files, chance.choice([1, 1, 2])):
        if chance.random() < 0.15:
            replace_by_something_else(path, outside, chance)
        elif path.suffix == ".json" and chance.random() < 0.8:
            path.write_bytes(mutated_json(path.read_text(), chance))
        elif path.suffix == ".safetensors":
            path.write_bytes(mutated_safetensors(path.read_bytes(), chance))
        else:
            path.write_bytes(mutated_bytes(path.read_bytes(), chance))
    if chance.random() < 0.1:
        replace_by_something_else(chance.choice(sorted(run.glob("checkpoints/*"))), outside, chance)
    if chance.random() < 0.5:
        _sign_again(run)
    yield "run", lambda: _read_run(run)
    for each in sorted(run.glob("checkpoints/*")):
        yield "checkpoint", lambda each=each: checkpoints.load(each)  # type: ignore[misc]
    yield "resume", lambda: _resume(run)


def _sign_again(run: Path) -> None:
    """Checksums that fit, so that the change is not found by them."""
    for folder in run.glob("checkpoints/0*"):
        files = [folder / name for name in checkpoints.FILES]
        manifest = folder / checkpoints.MANIFEST
        if manifest.is_symlink() or not all(path.is_file() and not path.is_symlink() for path in [*files, manifest]):
            continue
        facts = {
            p.name: {"bytes": p.stat().st_size, "sha256": hashlib.sha256(p.read_bytes()).hexdigest()} for p in files
        }
        manifest.write_text(json.dumps({"schema": 1, "step": 2, "files": facts}))


def _read_run(path: Path) -> None:
    run = RunFolder(path)
    _ = (run.meta, run.stage, run.settings(AutoEncoderTraining))
    _ = (list(run.metrics()), list(run.episodes()), run.checkpoints.latest())


def _resume(path: Path) -> None:
    with Run.open(path, tensorboard=False) as run:
        run.resume()
        run.log_metrics(3, {"loss": 0.1})
        run.checkpoint(3, {"w": np.zeros(5, np.float32)}, {"learner": {}})


# -- files -----------------------------------------------------------------------------------------------------------


def _act_map(path: Path) -> None:
    controller = learned_maps.load_map_controller(str(path))
    _ = controller.env_options
    controller.reset(0, _Grid())
    controller.act(np.zeros(controller.policy.inputs, np.float32))


class _Grid:
    """As much of an episode as a map of two superblocks needs."""

    grid, features, weights = (1, 2), np.zeros((3, 2, 5), np.float32), None


def _act_minigop(path: Path) -> None:
    controller = learned_minigop.load_minigop_controller(str(path))
    controller.reset(0, EPISODE)
    delta = controller.act(Situation(EPISODE, REQUEST))
    if not np.isfinite(delta):
        raise AssertionError(f"the delta is {delta}")


def _act_abr(path: Path) -> None:
    controller = Learned(path)
    controller.act(np.ones((6, controller.policy.columns), np.float32))


def _see(path: Path) -> None:
    _require_finite(load_trained(path, source="generated:street").model)


def _see_weights(path: Path) -> None:
    model = StreamingAutoEncoder(SMALL)
    load_weights(model, path)
    _require_finite(model)


def _require_finite(model: torch.nn.Module) -> None:
    for name, value in model.state_dict().items():
        if not torch.isfinite(value).all():
            raise AssertionError(f"{name} is not finite, and was loaded")


def _frame_reader(path: Path) -> None:
    net = FrameReaderNet.load(path)
    _require_finite(net)
    with torch.no_grad():
        net.readings(torch.zeros(1, 3, *net.settings.picture, dtype=torch.uint8))


def _location(path: Path) -> None:
    _require_finite(CrossEgoVideoLocationNet.load(path))


FEEDS: dict[str, Callable[[Path], object]] = {
    "map.safetensors": _act_map,
    "minigop.safetensors": _act_minigop,
    "abr.safetensors": _act_abr,
    "see.safetensors": _see,
    "see.pth": _see_weights,
    "frame-reader.safetensors": _frame_reader,
    "location.safetensors": _location,
    "imitation.json": Imitation.load,
    "file.pt": checkpoint_file.load,
    "seen.emb": embedding_file.read_embeddings,
}
