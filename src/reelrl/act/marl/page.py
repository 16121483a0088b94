"""The page of `reel evaluate doom`: trained teams beside chance and a blind rule, in the same matches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.act.marl.evaluate import ALL_RUNS, CHANCE, SWEEP, against_strongest_baseline
from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart, line_style, signed
from reelrl.report.forest import Row, forest
from reelrl.report.headline import compared
from reelrl.report.intervals import LEAST_MATCHES, TOO_FEW
from reelrl.report.page import Html, Stat
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.act.doom.teams import PlayedEpisode
    from reelrl.act.marl.evaluate import TeamRow
    from reelrl.report.intervals import Interval

    Played = Mapping[str, Sequence[PlayedEpisode]]

_METHOD = (
    "Every team plays the same seeds in fresh engines. Chance draws each action with equal probability. Sweep, fire, "
    "march and hold are blind: they turn, shoot, walk or press a switch whatever is there. Oracle knows where all "
    "are: how well the scenario can be played. A return is the sum of the team's rewards in a match. Intervals "
    "are 95 % bootstrap over matches; differences are paired in the same match. Several runs are taken together match "
    "by match."
)
_LIMITS = (
    "All matches are of one scenario, with as many players as the teams were trained with. Intervals are about these "
    "trained teams in other matches: how much another training would differ, only runs with other seeds can show. "
    "With three players or more the engine does not repeat a match to the byte, so that the same seed is the same "
    "scenario, but not the same course."
)


def write_page(
    path: Path, played: Played, rows: Sequence[TeamRow], trained: Sequence[str], facts: Mapping[str, Any]
) -> None:
    """All of an evaluation; `trained` are the names of the runs among the teams."""
    titles = _titles(rows, trained)
    headline, lead = _headline(played, rows, trained, titles)
    matches = _count(int(facts["matches"]))
    scope = f"{matches} of {facts['scenario']}, {facts['players']} players, the same for all teams."
    body = [
        page.stats(_stats(rows, trained, titles)),
        _against_chance(played, rows, titles),
        _table(rows, titles),
        _match_by_match(played, titles),
        page.section("What this does not show", _LIMITS),
        page.section("Method", _METHOD, _facts(facts), page.code(str(facts["command"]))),
    ]
    write_atomic(path, page.page(headline, f"{lead} {scope}", body, kicker="reel evaluate doom"))


def _titles(rows: Sequence[TeamRow], trained: Sequence[str]) -> dict[str, str]:
    """Names that fit beside a figure on a phone: of a run its folder's, unless two runs share that."""
    short = [Path(team).name for team in trained]
    shown = dict(zip(trained, short if len(set(short)) == len(short) else trained, strict=True))
    return {row.team: shown.get(row.team, row.team) for row in rows}


def _trained_row(rows: Sequence[TeamRow], trained: Sequence[str]) -> TeamRow:
    wanted = ALL_RUNS if len(trained) > 1 else trained[0]
    return next(row for row in rows if row.team == wanted)


def _headline(
    played: Played, rows: Sequence[TeamRow], trained: Sequence[str], titles: Mapping[str, str]
) -> tuple[str, str]:
    """The trained team against the stronger baseline: to beat chance alone is little."""
    row = _trained_row(rows, trained)
    who = "the trained teams" if len(trained) > 1 else titles[row.team]
    if len(played[CHANCE]) < LEAST_MATCHES:
        return _capital(f"{who}: return {row.returns.mean:.2f} in {_count(len(played[CHANCE]))}"), TOO_FEW
    strongest, more = against_strongest_baseline(played, trained)
    headline, sure = compared(who, strongest, more, "points of return per match", digits=2)
    return _capital(headline), f"{sure} {_besides(strongest, row)}".strip()


def _count(matches: int) -> str:
    return f"{matches} test match{'es' if matches != 1 else ''}"


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _besides(strongest: str, row: TeamRow) -> str:
    """What chance has to do with it, where that is not the headline already."""
    if strongest == CHANCE or row.above_chance is None:
        return ""
    return f"Against {CHANCE}: {_difference(row.above_chance)}."


def _stats(rows: Sequence[TeamRow], trained: Sequence[str], titles: Mapping[str, str]) -> list[Stat]:
    row = _trained_row(rows, trained)
    by_name = {each.team: each for each in rows}
    known = row.returns.is_known
    between = (
        f"95 % interval {row.returns.low:.2f} to {row.returns.high:.2f}" if known else "too few matches to say more"
    )
    return [
        Stat(f"{row.returns.mean:.2f}", f"return of {titles[row.team]}", between),
        Stat(
            f"{by_name[CHANCE].returns.mean:.2f}", "by chance", f"{by_name[SWEEP].returns.mean:.2f} by the blind rule"
        ),
        Stat(f"{row.kills:.1f}", "enemies killed per match", f"{by_name[CHANCE].kills:.1f} by chance"),
        Stat(f"{row.deaths:.1f}", "deaths per match", f"{by_name[CHANCE].deaths:.1f} by chance"),
    ]


def _against_chance(played: Played, rows: Sequence[TeamRow], titles: Mapping[str, str]) -> Html:
    chance = played[CHANCE]
    bars = []
    for row in rows:
        if row.above_chance is None:
            continue
        pairs = list(zip(played.get(row.team, ()), chance, strict=False))  # all runs together are no team that played
        dots = [
            (f"seed {one.seed}: {signed(one.reward - other.reward, 2)}", one.reward - other.reward)
            for one, other in pairs
        ]
        bars.append(
            Row(titles[row.team], row.above_chance, _difference(row.above_chance), dots, sure=row.above_chance.is_known)
        )
    chart = forest(bars, title="Differences of return to chance", lower_is_better=False)
    caption = "Return per match: mean paired difference and 95 % interval; every match is a small dot."
    return page.section(
        "Against chance", "Right of the line is better in the same matches.", page.figure(chart, caption)
    )


def _table(rows: Sequence[TeamRow], titles: Mapping[str, str]) -> Html:
    heads = ["team", "return [95 %]", "against chance [95 %]", "kills", "deaths", "matches"]
    lines = [
        [
            titles[row.team],
            _figure(row.returns),
            "" if row.above_chance is None else _difference(row.above_chance),
            f"{row.kills:.1f}",
            f"{row.deaths:.1f}",
            str(row.episodes),
        ]
        for row in rows
    ]
    return page.section(
        "What it is made of", "Means per match; kills and deaths are the team's.", page.table(heads, lines)
    )


def _match_by_match(played: Played, titles: Mapping[str, str]) -> Html:
    lines = []
    for number, (team, episodes) in enumerate(played.items()):
        notes = [f"{titles[team]}, seed {each.seed}: {each.reward:.2f}, {each.kills} killed" for each in episodes]
        points = [(float(place), each.reward) for place, each in enumerate(episodes, 1)]
        lines.append(Line(titles[team], points, notes=notes, joined=False, **line_style(number)))
    chart = line_chart(lines, x=Axis("match"), y=Axis("return"), title="Return of each team, match by match")
    lead = "Teams rise and fall together where a match is easy or hard for all; that is why differences are paired."
    return page.section("Match by match", lead, page.columns(page.figure(chart, "Point at a dot for its match."), ""))


def _figure(interval: Interval) -> str:
    return f"{interval.mean:.2f}" + (f" [{interval.low:.2f}, {interval.high:.2f}]" if interval.is_known else "")


def _difference(interval: Interval) -> str:
    between = f" [{signed(interval.low, 2)}, {signed(interval.high, 2)}]" if interval.is_known else ""
    return signed(interval.mean, 2) + between


def _facts(facts: Mapping[str, Any]) -> Html:
    return page.facts((key, str(value)) for key, value in facts.items() if key != "command")
