"""Runs of `reel train location`, loaded to answer; those that differ in nothing but the seed are one contestant."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.act.location.answers import answers
from reelrl.act.location.dataset import Scenes
from reelrl.act.location.model.net import CrossEgoVideoLocationNet
from reelrl.act.location.train import WEIGHTS, LocationTraining
from reelrl.errors import ConfigError
from reelrl.settings import config

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from reelrl.act.location.answers import Answers
    from reelrl.act.location.samples import Marks, Moments
    from reelrl.runs.folder import RunFolder

_TERM = "net.contrastive."
# The encoder says these already.
_FROM_DATA = ("net.embed_dim", "net.players", "net.enemies", "net.video_encoder", "net.clip")


@dataclass(frozen=True, eq=False)
class TrainedNet:
    """One run, ready to answer."""

    folder: Path
    seed: int
    settings: LocationTraining
    net: CrossEgoVideoLocationNet
    scenes: Scenes

    def answer(self, split: str, moments: Moments, pov: Marks) -> Answers:
        return answers(self.net, self.scenes.clips[split], moments, self.settings.pooling, pov)


def load_nets(
    folders: Sequence[RunFolder],
    data: str | None,
    splits: Sequence[str],
    embeddings: str | None,
    make: bool,
    device: str | torch.device = "cpu",
) -> dict[str, list[TrainedNet]]:
    """The nets by contestant; all of them must be about the same moments."""
    runs = [(folder, _settings(folder, data)) for folder in folders]
    for folder, settings in runs[1:]:
        _require_same_moments(runs[0][1], settings, folder)
    opened: dict[str, Scenes] = {}
    grouped: dict[str, list[TrainedNet]] = {}
    for folder, settings in runs:
        net = CrossEgoVideoLocationNet.load(folder.artifact(WEIGHTS))
        encoded = config.dumps(settings.encoder) + str((settings.picture_size, settings.frames_per_row))
        if encoded not in opened:
            opened[encoded] = Scenes(settings, splits, embeddings=embeddings, make=make, device=device)
        scenes = opened[encoded]
        if settings.net.num_places != len(scenes.plan.places):
            raise ConfigError(
                f"{folder.folder} knows {settings.net.num_places} places of {settings.map}, and that map has "
                f"{len(scenes.plan.places)} in {scenes.data.folder}; give the data it was trained on"
            )
        trained = TrainedNet(folder.folder, folder.seed, settings, net, scenes)
        grouped.setdefault(config.dumps(settings), []).append(trained)
    # Seeds of contestants are compared one by one, whatever the order of words on the command line.
    groups = [sorted(group, key=lambda each: each.seed) for group in grouped.values()]
    return dict(zip(names([group[0].settings for group in groups]), groups, strict=True))


def names(groups: Sequence[LocationTraining]) -> list[str]:
    """What a person would call these settings: by the contrastive term, and by what else differs."""
    flat = [_flat(config.to_mapping(settings)) for settings in groups]
    differing = [key for key in flat[0] if len({str(each.get(key)) for each in flat}) > 1 and key not in _FROM_DATA]
    short = [_named(settings, each, differing, term=False) for settings, each in zip(groups, flat, strict=True)]
    shared = {name for name, count in Counter(short).items() if count > 1}
    return [
        _named(settings, each, differing, term=True) if name in shared else name
        for settings, each, name in zip(groups, flat, short, strict=True)
    ]


def _named(settings: LocationTraining, flat: dict[str, Any], differing: Sequence[str], *, term: bool) -> str:
    contrastive = settings.net.contrastive
    base = "net, no module" if not contrastive.enable else "net" if contrastive.loss_weight else "net without term"
    keys = [key for key in differing if term or not key.startswith(_TERM)]
    return base + "".join(f", {key.rpartition('.')[2]} {flat.get(key)}" for key in keys)


def _flat(mapping: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        dotted = prefix + key
        flat |= _flat(value, dotted + ".") if isinstance(value, dict) and dotted not in _FROM_DATA else {dotted: value}
    return flat


def _settings(folder: RunFolder, data: str | None) -> LocationTraining:
    if folder.stage != "location":
        raise ConfigError(
            f"{folder.folder} is a run of `reel train {folder.stage}`; give runs of `reel train location`"
        )
    settings = folder.settings(LocationTraining)
    return replace(settings, data=data) if data else settings


def _require_same_moments(first: LocationTraining, settings: LocationTraining, folder: RunFolder) -> None:
    for name in ("data", "map", "samples"):
        its, first_value = getattr(settings, name), getattr(first, name)
        if its != first_value:
            raise ConfigError(
                f"{folder.folder} has {name} {its!r}, the first run has {first_value!r}; "
                "only runs about the same moments can be compared"
            )
