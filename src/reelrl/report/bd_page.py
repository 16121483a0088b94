"""What pages about BD-rates have in common: headline, every clip in tables, curves, the method with its doubts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart, signed
from reelrl.report.forest import SURE, clip_values
from reelrl.report.page import Html, tag
from reelrl.report.verdicts import METRIC_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reelrl.report.verdicts import ClipResult, Verdict


def headline(judged: Sequence[Verdict], results: Sequence[ClipResult]) -> tuple[str, str]:
    """The best of verdicts by one metric against one anchor in a sentence, and how sure that is."""
    measured = [each for each in judged if each.percent]
    if not measured:
        return "No BD-rate could be had", "Every figure is missing; the reasons are below."
    best = min(measured, key=lambda each: each.percent.mean if each.percent else 0.0)
    mean, low, high = best.percent or (0.0, 0.0, 0.0)
    clips = len(clip_values(best, results))
    of = f", the best of {len(measured)} contestants" if len(measured) > 1 else ""
    sure = (
        f"BD-rate by {METRIC_NAMES[best.metric]}: {signed(mean, 2)} %, 95 % interval over clips {signed(low, 2)} to "
        f"{signed(high, 2)}{of}. It saves bits on {best.better} of {clips} clips."
    )
    # Whether an interval holds zero decides what may be claimed; of too few clips it may claim nothing.
    if clips < SURE:
        return f"{best.contestant}: {signed(mean, 2)} % bits against {best.anchor}, on too few clips", sure
    if high < 0:
        return f"{best.contestant} saves {-mean:.2f} % of bits against {best.anchor}", sure
    if low > 0:
        return f"Nothing saves bits against {best.anchor}: {best.contestant} costs {mean:.2f} %", sure
    return f"{best.contestant} and {best.anchor}: no difference shown", sure


def clip_tables(results: Sequence[ClipResult], titles: Mapping[tuple[str, str], str]) -> Html:
    """A table for each anchor and metric in `titles`; never-compressed clips first, and apart."""
    names = list(dict.fromkeys(result.contestant for result in results))
    clips = {result.clip: result for result in results}
    ordered = sorted(clips.items(), key=lambda item: (not item[1].pristine, item[0]))
    parts = []
    for (anchor, metric), title in titles.items():
        chosen = [result for result in results if result.metric == metric and anchor in ("", result.anchor)]
        by_clip = {(result.contestant, result.clip): result for result in chosen}
        rows = []
        for clip, one in ordered:
            kind = f"{one.split}, {'pristine' if one.pristine else 'compressed before'}"
            rows.append([clip, kind, *(_figure(by_clip.get((name, clip))) for name in names)])
        parts.append(page.details(title, page.table(["clip", "kind", *names], rows)))
    lead = "BD-rate in percent for each clip, losers included; * marks a figure with doubts, - one that is missing."
    return page.section("Clip by clip", lead, *parts)


def curves(by_clip: Mapping[str, Sequence[Line]], metric: str, lead: str) -> Html:
    """Rate and quality, a chart per clip; all but two are shown on demand."""
    x, y = Axis("kbit/s", log=True), Axis(METRIC_NAMES[metric])
    charts = [
        page.figure(line_chart(lines, x=x, y=y, title=f"{clip}: rate and quality"), clip)
        for clip, lines in by_clip.items()
    ]
    rest = [page.details("All clips", *charts[2:])] if charts[2:] else []
    return page.section("Rate and quality", lead, page.columns(*charts[:2]), *rest)


def method(
    words: str, summary: Sequence[Verdict], facts: Mapping[str, Any], hidden: Sequence[str] = ("command",)
) -> Html:
    """How figures came about: words, facts but the hidden ones, what is missing or in doubt, the command."""
    missing = [
        f"{each.contestant} against {each.anchor}, {METRIC_NAMES[each.metric]}, {clip}: {why}"
        for each in summary
        for clip, why in (each.left_out | each.doubted).items()
    ]
    named = [(str(key), _plain(value)) for key, value in facts.items() if key not in hidden]
    doubts = page.details(f"{len(missing)} figures missing or in doubt", *(tag("p", line) for line in missing))
    return page.section("How", words, page.facts(named), doubts, page.code(str(facts.get("command", ""))))


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _figure(result: ClipResult | None) -> str:
    if result is None or result.bd.percent is None:
        return "-"
    return signed(result.bd.percent, 2) + ("*" if result.bd.doubts else "")
