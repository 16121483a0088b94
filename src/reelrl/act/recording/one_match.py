"""One match, played by a roaming team and written to a folder of its own: a video per player, and the labels.

The folder appears under its name when everything in it is complete.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reelrl.act.doom.match import Match
from reelrl.act.doom.player_process import WENT_ON
from reelrl.act.recording.labels import row_of, stacked
from reelrl.act.recording.manifest import LABELS, TICRATE, FileFacts
from reelrl.act.recording.roaming import RoamingTeam
from reelrl.errors import ContentError, GameError
from reelrl.names import VIDEO_WRITERS, resolve
from reelrl.storage.files import explain_os_error, sync_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reelrl.act.recording.labels import Labels, MatchRow
    from reelrl.act.recording.manifest import RecordingSettings
    from reelrl.act.recording.maps import MapPlan

ASIDE = ".unfinished-"
_WARM_UP_S = 4.0  # nobody is recorded where matches begin, which is always the same


def record(
    folder: Path,
    scenario: str,
    plan: MapPlan,
    settings: RecordingSettings,
    seed: int,
    halted: Callable[[], bool] = lambda: False,
) -> tuple[Labels, dict[str, FileFacts]]:
    """Play a match into `folder`; returns its labels and files by name. `halted` is asked at every row."""
    aside = folder.with_name(f"{ASIDE}{folder.name}-{secrets.token_hex(4)}")
    try:
        aside.mkdir(parents=True)
        labels = _play(aside, scenario, plan, settings, seed, halted)
        (aside / LABELS).write_bytes(labels.to_bytes())
        files = {path.name: FileFacts.of(path) for path in sorted(aside.iterdir())}
        for name in files:
            sync_file(aside / name)
        sync_folder(aside)
        aside.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise ContentError(explain_os_error(error, folder, "write")) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return labels, files


def _play(
    folder: Path, scenario: str, plan: MapPlan, settings: RecordingSettings, seed: int, halted: Callable[[], bool]
) -> Labels:
    config = settings.match(scenario)
    height, width = config.picture_size
    team = RoamingTeam(plan, settings.players, seed)
    rows: list[MatchRow] = []
    with ExitStack() as open_things:
        match = Match(config, seed, sightings=True, own_colours=True)
        open_things.callback(match.close)
        kind = resolve(VIDEO_WRITERS, settings.video)
        rate = Fraction(TICRATE, settings.skip)
        writers: list[Any] = [
            open_things.enter_context(kind(folder / settings.video_name(player), width, height, rate))
            for player in range(settings.players)
        ]
        before = int(_WARM_UP_S * TICRATE / settings.skip)
        for number in range(before + settings.rows):
            if halted():
                raise GameError("the match was stopped")
            row = row_of(match.facts, match.sightings)
            if number >= before:
                rows.append(row)
                for writer, picture in zip(writers, match.pictures, strict=True):
                    writer.write(picture.transpose(1, 2, 0))
            if match.step(team.act(row)) != WENT_ON:
                break
    if not rows:
        raise GameError(f"a match on {scenario} ended within {_WARM_UP_S:g} s; use a longer scenario")
    return stacked(rows)
