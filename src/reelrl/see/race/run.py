"""Learners side by side on the same streams: optimisers, seeds and games in one pass over a device.

Every frame is scored before it is learned from. The figure at N frames is the mean over the last tenth before N. All
learners of a game see the same frames; seeds vary their first weights.

Results are written at every mark. Learners, sums and places in the streams are saved there, every 5 000 frames, every
minute and at Ctrl+C or SIGTERM, in a folder beside the results, so that a race that was stopped, also by kill -9, goes
on where it was: on a CPU to the same bits. The folder is removed when a pass is done.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import torch

from reelrl.agents.devices import pick_device
from reelrl.errors import ConfigError
from reelrl.runs.checkpoints import Checkpoints
from reelrl.runs.progress import Progress, track
from reelrl.runs.saving import Saving
from reelrl.see.frames.source import FrameSource, to_input
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.trained import HELD_OUT_SEED, Judge
from reelrl.see.model.loss import compute_frame_difference, reconstruction_loss
from reelrl.see.race.one_pass import Pass
from reelrl.see.settings import AutoEncoderSettings
from reelrl.see.update import FOREGROUND
from reelrl.see.weights import save_weights
from reelrl.settings import config
from reelrl.storage.files import writable_folder
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.see.race.contestants import RaceContestant
    from reelrl.see.race.results import Results

SAVE_EVERY = 5_000
ORDINARY_BATCH, ORDINARY_RATE = 16, 1e-3


def race(
    wanted: Sequence[RaceContestant],
    frames: int,
    results: Results,
    *,
    device: str = "cpu",
    together: int = 24,
    seed: int = 0,
    save_to: Path | None = None,
    held_out: int = 100,
    save_every: int = SAVE_EVERY,
) -> None:
    """Run what is missing, at most `together` learners in one pass; the weights at every mark go into `save_to`.

    In the end each is scored on `held_out` frames of episodes that it never saw.
    """
    if frames < 1 or together < 1 or save_every < 1:
        raise ConfigError(f"frames {frames}, together {together}, save_every {save_every}; each is 1 or more")
    if seed == HELD_OUT_SEED:
        raise ConfigError(f"seed {seed} is that of the held-out episodes; choose another")
    left = results.missing(wanted, frames)
    if left:
        pick_device(device)  # refuses one that is not there; to show results again none is needed
    # A device's memory holds so many learners; for the next ones the same frames are played again.
    passes = [left[start : start + together] for start in range(0, len(left), together)]
    saved = Checkpoints(results.path.with_suffix(".state"), keep=1)
    if not results.path.exists():  # what was scored before is gone, so what was saved with it is of no use
        shutil.rmtree(saved.folder, ignore_errors=True)
    results.write()
    with Progress("race", len(passes) * frames, unit="frames") as progress:
        for number, group in enumerate(passes, 1):
            progress.update(0, **{"pass": f"{number}/{len(passes)}", "learners": len(group)})
            one = Pass(group, frames, seed=seed, device=device, save_every=save_every)
            _run(one, results, saved, save_to, progress)
            _examine(one, results, held_out, device)  # last: who has this is done
            shutil.rmtree(saved.folder, ignore_errors=True)


def _run(one: Pass, results: Results, saved: Checkpoints, save_to: Path | None, progress: Progress) -> None:
    before = saved.latest()
    if before and one.resume(before):
        progress.update(one.done)
    with closing(one.learn()) as blocks, Saving() as saving:
        last = one.done
        for done in blocks:
            progress.update(done - last)
            last = done
            if one.report(results):
                if save_to:
                    _save_all(one, writable_folder(save_to / str(done)))
                results.write()
            saving.reached(f"frame {done}", lambda: saved.save(one.done, *one.state()), due=one.at_save())


def _save_all(one: Pass, folder: Path) -> None:
    for contestant, learner in zip(one.group, one.learners, strict=True):
        save_weights(learner, own_path(folder / contestant.file_name))


def _examine(one: Pass, results: Results, frames: int, device: str) -> None:
    """Score what each learner knows in the end on episodes that it never saw."""
    for source in one.sources:
        judge = Judge(source, frames, device)
        for place in one.watching(source):
            results.rows[one.group[place].key]["held_out"] = judge.judge(one.learners[place])
    results.write()


def ordinary(
    sources: Sequence[str], frames: int, updates: int, results: Results, *, device: str = "cpu", seed: int = 0
) -> None:
    """The default settings trained on the shuffled frames of each source; only the held-out score is comparable."""
    settings = AutoEncoderSettings()
    for source in sources:
        name = f"shuffled, {updates} batches"
        if (name, source, settings.seed) not in results.rows:
            model = _train_ordinary(settings, source, frames, updates, device=device, seed=seed)
            row = {"contestant": name, "source": source, "seed": settings.seed, "at": {}}
            figures = Judge(source, device=device).judge(model)
            results.rows[name, source, settings.seed] = {
                **row,
                "settings": config.to_mapping(settings),
                "held_out": figures,
            }
            results.write()


def _train_ordinary(
    settings: AutoEncoderSettings, source: str, frames: int, updates: int, *, device: str = "cpu", seed: int = 0
) -> StreamingAutoEncoder:
    """A model that saw the first `frames` of a stream in `updates` batches of 16, each epoch shuffled anew.

    A baseline for learning while watching: it may look at a frame as often as it likes, in any order.
    """
    if frames < ORDINARY_BATCH or updates < 1:
        raise ConfigError(
            f"frames {frames}, updates {updates}; at least {ORDINARY_BATCH} frames and 1 update are needed"
        )
    with FrameSource(source, seed, device) as stream:
        pictures = torch.stack([frame.pixels for frame, _ in zip(stream, range(frames), strict=False)])
    model = StreamingAutoEncoder(settings, device)
    # A thousand of them are enough for a mean, and it does not change any more while the network learns.
    for start in range(0, len(pictures), max(1, len(pictures) // 1000)):
        model.background.update(to_input(pictures[start : start + 1]))
    optimiser = torch.optim.Adam(model.parameters(), ORDINARY_RATE)
    rng = torch.Generator().manual_seed(settings.seed)
    order: list[int] = []
    for _ in track(range(updates), "batches", unit="updates"):
        if len(order) < ORDINARY_BATCH:
            order = torch.randperm(len(pictures), generator=rng).tolist()
        batch = to_input(pictures[torch.tensor(order[:ORDINARY_BATCH], device=pictures.device)])
        order = order[ORDINARY_BATCH:]
        in_front = (compute_frame_difference(batch, model.background.mean) > FOREGROUND).float()
        losses = reconstruction_loss(model(batch), batch, 1 + settings.loss.foreground * in_front, settings.loss)
        optimiser.zero_grad(set_to_none=True)
        losses.total.mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return model
