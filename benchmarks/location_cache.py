"""An epoch of the location net on embeddings that were kept, against encoding every clip anew.

    python benchmarks/location_cache.py

A few seconds of real matches are recorded first. Both epochs see the same moments in the same batches with the same
frozen EfficientNet-Lite0; the one that encodes anew gets pictures that are decoded already. CPU time on one thread;
rounds are interleaved and the best of each counts.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from reelrl.act.location.dataset import Scenes
from reelrl.act.location.embeddings import Clips, Store
from reelrl.act.location.row_encoders import Thumbnails
from reelrl.act.location.samples import SampleSettings
from reelrl.act.location.train import LocationTrainer, LocationTraining
from reelrl.act.recording.collect import Collection
from reelrl.act.recording.manifest import RecordingSettings
from reelrl.runs.folder import Run

MATCHES, SECONDS, ROUNDS, LEAST = 4, 5.0, 2, 10.0


def record(folder: Path) -> None:
    collection = Collection(folder, RecordingSettings(players=2, seconds=SECONDS))
    try:
        for _ in collection.collect("haunted_rooms", MATCHES):
            pass
    finally:
        collection.close()


def from_pictures(kept: Scenes) -> Scenes:
    """The same moments, with pictures in the place of embeddings, and a net that encodes them itself."""
    scenes = copy.copy(kept)
    store = Store(Thumbnails(kept.samples))
    scenes.clips = {split: Clips.of(kept.data, moments.matches, store) for split, moments in kept.moments.items()}
    encoder, clip = kept.settings.encoder, scenes.clips["train"].clip_shape
    net = replace(kept.settings.net, embed_dim=None, video_encoder=encoder, clip=clip)
    scenes.settings = replace(kept.settings, net=net)
    return scenes


def epoch_s(scenes: Scenes, folder: Path) -> float:
    with Run.create(folder, scenes.settings, stage="location", name="bench", seed=0, tensorboard=False) as run:
        trainer = LocationTrainer(scenes.settings, 0, run, scenes)
        start_s = time.process_time()
        trainer.learn_epoch()
        return time.process_time() - start_s


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="reelrl-bench-") as text:
        folder = Path(text)
        os.environ["REELRL_CACHE"] = str(folder / "cache")
        record(folder / "data")
        settings = LocationTraining(data=str(folder / "data"), samples=SampleSettings(ahead_s=1.0), pooling="mean")
        kept = Scenes(settings, ["train", "val"])
        anew = from_pictures(kept)
        rounds = [(epoch_s(kept, folder / "runs"), epoch_s(anew, folder / "runs")) for _ in range(ROUNDS)]
    once, inside = (min(times) for times in zip(*rounds, strict=True))
    print(f"{'embeddings':<16}{'CPU s an epoch':>16}")
    print(f"{'made anew':<16}{inside:>16.2f}")
    print(f"{'kept':<16}{once:>16.3f}")
    print(f"{inside / once:.0f} times faster (wanted: {LEAST:.0f})")
    assert inside >= LEAST * once


if __name__ == "__main__":
    main()
