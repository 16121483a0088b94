"""The part of `reel demo` on acting: a team that ships plays one match, as a film of both views and the map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.act.doom.match_film import MatchFilm
from reelrl.act.doom.saved_teams import open_team
from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.doom.teams import BlindTeam, OracleTeam, RandomTeam, play
from reelrl.act.doom.weights import SHIPPED
from reelrl.agents.devices import use_threads
from reelrl.content.write.film import write_film
from reelrl.errors import ConfigError
from reelrl.report.charts import minus
from reelrl.report.demo_part import DemoPart
from reelrl.report.page import code, section, table, video
from reelrl.runs.progress import Progress
from reelrl.storage.regular_files import own_path

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.doom.saved_teams import SavedTeam
    from reelrl.act.doom.teams import PlayedEpisode, Team
    from reelrl.report.demo_part import DemoOptions
    from reelrl.report.page import Html

SEED = 1
TITLE = "Win by looking"
LEAD = (
    "Two players in one match of Doom. Each sees its own view and nothing else; red figures are intruders, blue ones "
    "bystanders who cost what an intruder brings, and there are few bullets."
)
_TRAINED = "the trained team"


def make(folder: Path, options: DemoOptions) -> DemoPart:  # noqa: ARG001 - plays matches of its own
    if not SHIPPED:
        raise ConfigError("no team ships with this version; train one: reel train doom --scenario gate --teach 60000")
    use_threads(1)
    name = next(iter(SHIPPED))
    film = f"doom-{name}.mp4"
    saved = open_team(name)
    played, size = _play(saved, folder / film)
    rows = [[team, minus(f"{each.reward:.0f}"), str(each.kills), str(each.steps)] for team, each in played.items()]
    lines = [["team", team, f"return {each.reward:.0f}", f"kills {each.kills}"] for team, each in played.items()]
    record = {"doom": {"scenario": name, "returns": {team: each.reward for team, each in played.items()}}}
    return DemoPart(TITLE, LEAD, [_section(name, film, size, rows)], record, lines, [film])


def _play(saved: SavedTeam, path: Path) -> tuple[dict[str, PlayedEpisode], tuple[int, int]]:
    """One match of everybody, the same for all; that of the trained team is filmed."""
    env = saved.make_env(sightings=True)
    teams: dict[str, Team] = {
        _TRAINED: saved.team(),
        "chance": RandomTeam(),
        "turn and shoot, blind": BlindTeam("sweep"),
        "an oracle": OracleTeam(env),
    }
    film, pictures = MatchFilm(scenario.OURS[env.cfg.config_path].floors()), []
    played = {}
    try:
        with Progress("play", len(teams), unit="matches") as progress:
            for name, team in teams.items():
                look = (lambda: pictures.append(film.picture(env))) if name == _TRAINED else (lambda: None)
                played[name] = play(env, team, SEED, look)
                progress.update()
    finally:
        env.close()
    write_film(own_path(path), pictures, env.cfg.ticrate / env.cfg.skip)
    height, width = pictures[0].shape[:2]
    return played, (width, height)


def _section(name: str, film: str, size: tuple[int, int], rows: list[list[str]]) -> Html:
    return section(
        TITLE,
        f"{LEAD} In {name} the trained team is one small net for both, which learned from pictures what a rule that "
        "is told what is in them would do.",
        video(film, "what the players see, and where everybody is", *size),
        table(
            ["team", "return", "intruders", "steps"],
            rows,
            "One match, the same for all: what luck is in it is in it. The oracle is a rule told where everybody is.",
        ),
        code(
            f"reel demo --only act --again\nreel evaluate doom {name} --ablations\nreel watch doom {name} -o match.mp4"
        ),
    )
