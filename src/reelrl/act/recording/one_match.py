"""One match, played by a roaming team and written to a folder of its own: a video per player, and the labels."""

from __future__ import annotations

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
    from pathlib import Path

    from reelrl.act.recording.labels import Labels, MatchRow
    from reelrl.act.recording.manifest import RecordingSettings
    from reelrl.act.recording.maps import MapPlan

_WARM_UP_S = 4.0  # nobody is recorded where matches begin, which is always the same


def record(
    folder: Path, scenario: str, plan: MapPlan, settings: RecordingSettings, seed: int
) -> tuple[Labels, dict[str, FileFacts]]:
    """Play a match into a new folder, which is gone again if that fails; returns its labels and files by name."""
    try:
        folder.mkdir()
        labels = _play(folder, scenario, plan, settings, seed)
        (folder / LABELS).write_bytes(labels.to_bytes())
        files = {path.name: FileFacts.of(path) for path in sorted(folder.iterdir())}
        for name in files:
            sync_file(folder / name)
        sync_folder(folder)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise ContentError(explain_os_error(error, folder, "write")) from error
        raise
    return labels, files


def _play(folder: Path, scenario: str, plan: MapPlan, settings: RecordingSettings, seed: int) -> Labels:
    config = settings.match(scenario)
    height, width = config.picture_size
    team = RoamingTeam(plan, settings.players, seed, settings.squad)
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
