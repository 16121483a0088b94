"""HTML pages in one file: no script, nothing fetched, light and dark, readable on a phone.

    body = [section("What the map did", "Two sentences.", table(heads, rows), figure(chart, "What to see in it."))]
    write_atomic("index.html", page("Title", "One sentence.", body))

Everything that is not `Html` is taken for plain text and escaped.
"""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.content.pictures import png_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reelrl.content.pictures import Picture


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


WIDE = 2.4
"""Times as wide as high: on a phone such a film would be as high as the player's buttons."""


@dataclass(frozen=True)
class Stat:
    """A figure that the reader should remember: what it is, and one line of context."""

    figure: str
    label: str
    note: str = ""


def text(content: str) -> Html:
    """Markup that shows `content` as it is."""
    return content if isinstance(content, Html) else Html(html.escape(content))


def join(parts: Iterable[str]) -> Html:
    return Html("\n".join(text(part) for part in parts))


def tag(name: str, content: str = "", **attributes: object) -> Html:
    """One element with what it holds. `class_` is the attribute class, `data_x` is data-x; None leaves one out."""
    return Html(f"<{name}{_attributes(attributes)}>{text(content)}</{name}>")


def page(
    title: str,
    lead: str,
    body: Iterable[str],
    *,
    kicker: str = "reelrl",
    foot: str = "",
    contents: Iterable[tuple[str, str]] = (),
) -> str:
    """A whole document: kicker above the title, lead below it, the body, a line at the foot.

    `contents` are anchors and their titles, as links below the lead.
    """
    head = [tag("p", kicker, class_="kicker"), tag("h1", title), tag("p", lead, class_="lead")]
    if links := [tag("a", name, href=f"#{anchor}") for anchor, name in contents]:
        head.append(tag("nav", join(links), aria_label="contents"))
    header = tag("header", join(head))
    main = tag("main", join(body))
    footer = tag("footer", tag("p", foot)) if foot else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{header}\n{main}\n{footer}\n</body>\n</html>\n"
    )


def section(heading: str, lead: str, *parts: str) -> Html:
    return tag("section", join([tag("h2", heading), tag("p", lead), *parts]))


def chapter(anchor: str, sections: Iterable[str]) -> Html:
    """Sections that a link of the contents leads to."""
    return tag("div", join(sections), id=anchor)


def stats(items: Sequence[Stat]) -> Html:
    """Figures in a row, the first ones first."""
    cards = [
        tag("li", join([tag("strong", item.figure), tag("span", item.label), tag("small", item.note)]))
        for item in items
    ]
    return tag("ul", join(cards), class_="stats")


def figure(content: str, caption: str) -> Html:
    return tag("figure", join([content, tag("figcaption", caption)]))


def columns(*parts: str, narrow: int = 1) -> Html:
    """Parts side by side; on a phone only `narrow` of them."""
    return tag("div", join(parts), class_="columns", style=f"--wide: {len(parts)}; --narrow: {narrow}")


def image(picture: Picture, alt: str) -> Html:
    """A picture inside the page, every pixel sharp however large it is shown."""
    height, width = picture.shape[:2]
    return Html(f'<img src="{data_uri(picture)}" alt="{text(alt)}" width="{width}" height="{height}">')


def data_uri(picture: Picture) -> str:
    return "data:image/png;base64," + base64.b64encode(png_bytes(picture)).decode()


def video(source: str, label: str, width: int, height: int, poster: Picture | None = None) -> Html:
    """A player for a file beside the page, and a link for browsers that do not know its codec.

    `poster` is shown until it plays, for films that begin black. On a phone a very wide film scrolls inside its column.
    """
    player = tag(
        "video",
        src=source,
        width=width,
        height=height,
        controls="",
        loop="",
        muted="",
        playsinline="",
        preload="auto",
        poster=None if poster is None else data_uri(poster),
        aria_label=label,
    )
    if width > WIDE * height:
        player = tag("div", player, class_="scroll wide", tabindex=0, role="region", aria_label=label)
    return figure(player, join([text(label), tag("a", source, href=source)]))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", *, wrap: bool = False) -> Html:
    """Columns of words to the left, of figures to the right. A row that begins with "" continues the one above.

    A table that is too wide scrolls inside its column; with `wrap` an interval goes below its mean before that.
    """
    rows = list(rows)
    sides = [_side([row[place] for row in rows if place < len(row)]) for place in range(len(heads))]
    head = tag("tr", join(tag("th", name, scope="col", class_=side) for name, side in zip(heads, sides, strict=True)))
    if wrap:
        rows = [[type(cell)(cell.replace(" [", "\n[")) for cell in row] for row in rows]
    lines = [
        tag("tr", join([tag("th", row[0], scope="row"), *map(_cell, row[1:], sides[1:])]), class_=_kind(row))
        for row in rows
    ]
    whole = tag("table", join([tag("thead", head), tag("tbody", join(lines))]), class_="wrap" if wrap else None)
    held = tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption or heads[0])
    return figure(held, caption) if caption else held


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Names and what they are."""
    return tag("dl", join(join([tag("dt", name), tag("dd", value)]) for name, value in pairs))


def code(lines: str) -> Html:
    return tag("pre", tag("code", lines), tabindex=0)


def details(summary: str, *parts: str) -> Html:
    """Parts that are shown on demand."""
    return tag("details", join([tag("summary", summary), *parts]))


def _kind(row: Sequence[str]) -> str | None:
    return None if row[0] else "more"


def _cell(content: str, side: str | None) -> Html:
    return tag("td", content, class_=side)


_FIGURE = re.compile(r"[-+−]?(\d|nan|inf)|[-–]?$")


def _side(cells: Iterable[str]) -> str | None:
    """The class of a column: words stand to the left, figures and what stands for a missing one to the right."""
    return None if all(_FIGURE.match(re.sub("<[^>]*>", "", cell)) for cell in cells) else "words"


def _attributes(values: dict[str, object]) -> str:
    names = {key: key.rstrip("_").replace("_", "-") for key in values}
    return "".join(
        f" {names[key]}" if value == "" else f' {names[key]}="{text(str(value))}"'
        for key, value in values.items()
        if value is not None
    )


_STYLE = """
:root {
  color-scheme: light dark;
  --ground: #fbfaf8; --raised: #ffffff; --ink: #1b1d22; --soft: #5a606b; --line: #e2dfd9; --code: #f2f0ec;
  --one: #0b62b0; --two: #b8480a; --three: #2f7a2b; --four: #8a3ea8; --quiet: #7a808b; --shade: #0000001f;
  --better: #2a5cff; --worse: #ff4a1e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #121418; --raised: #1a1d23; --ink: #e9e7e2; --soft: #a4abb7; --line: #2d323b; --code: #20242b;
    --one: #6db5ff; --two: #ff9a5c; --three: #85d080; --four: #d9a2f2; --quiet: #8e95a1; --shade: #000000a0;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 1.0625rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
header, main, footer { max-width: 68rem; margin: 0 auto; padding: 0 clamp(1rem, 4vw, 2.5rem); }
header { padding-top: clamp(2rem, 6vw, 4.5rem); }
h1, h2 { line-height: 1.15; letter-spacing: -.02em; text-wrap: balance; }
h1 { font-size: clamp(2rem, 6vw, 3.4rem); margin: .2em 0 .35em; font-weight: 700; }
h2 { font-size: clamp(1.35rem, 3vw, 1.75rem); margin: 0 0 .4em; }
p { max-width: 44rem; margin: 0 0 1rem; }
.kicker { font: 600 .85rem/1 ui-monospace, "SF Mono", Menlo, Consolas, monospace; color: var(--one); margin: 0; }
.lead { font-size: clamp(1.1rem, 2vw, 1.3rem); line-height: 1.5; color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .95rem; }
section { margin-top: clamp(2.75rem, 6vw, 4.5rem); }
a { color: var(--one); text-underline-offset: .15em; }
:focus-visible { outline: 3px solid var(--one); outline-offset: 2px; border-radius: 3px; }
.stats { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(13rem, 100%), 1fr)); gap: 1px; padding: 0;
  margin: 2rem 0 0; list-style: none; background: var(--line); border: 1px solid var(--line); border-radius: 14px;
  overflow: hidden; }
.stats li { background: var(--raised); padding: 1.2rem 1.3rem 1.1rem; display: flex; flex-direction: column; }
.stats strong { font-size: 2.3rem; line-height: 1.1; letter-spacing: -.03em; font-variant-numeric: tabular-nums; }
.stats span { font-weight: 600; margin: .25rem 0 .1rem; }
.stats small, figcaption, footer, .note { color: var(--soft); font-size: .9rem; line-height: 1.5; }
.note { margin-top: .6rem; }
.columns { display: grid; grid-template-columns: repeat(var(--wide), minmax(0, 1fr));
  gap: clamp(.75rem, 2vw, 1.5rem); align-items: start; }
figure { margin: 0 0 1.25rem; min-width: 0; }
figcaption { margin-top: .5rem; }
figcaption b { color: var(--ink); }
img, video, svg { display: block; width: 100%; height: auto; border-radius: 8px; }
img { image-rendering: pixelated; }
video { background: #000; }
svg text { fill: var(--soft); font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: 0 0 .3rem; padding: 0; list-style: none;
  font-size: .9rem; font-weight: 600; }
.legend li { display: flex; align-items: center; gap: .45rem; }
.forest { max-width: 44rem; }
.forest .name { fill: var(--ink); font-weight: 600; }
section > figure > svg { max-width: 44rem; }
.legend svg { width: 1.9rem; flex: none; }
.scroll { overflow-x: auto; margin: 0 0 1.25rem; background:
  linear-gradient(90deg, var(--ground) 40%, transparent) 0 / 3rem 100% local no-repeat,
  linear-gradient(-90deg, var(--ground) 40%, transparent) 100% / 3rem 100% local no-repeat,
  linear-gradient(90deg, var(--shade), transparent) 0 / .9rem 100% no-repeat,
  linear-gradient(-90deg, var(--shade), transparent) 100% / .9rem 100% no-repeat; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .5rem .75rem; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; }
td.words, th.words { text-align: left; }
.wrap th { white-space: normal; }
.wrap td { white-space: pre; }
thead th { color: var(--soft); font-weight: 600; font-size: .85rem; border-bottom: 2px solid var(--line); }
tbody tr:not(.more) > * { border-top: 1px solid var(--line); }
tbody tr:first-child > * { border-top: 0; }
pre { background: var(--code); padding: 1rem 1.2rem; border-radius: 10px; overflow-x: auto; margin: 0 0 1.25rem;
  font: .875rem/1.6 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.5rem; margin: 0 0 1.25rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
details { border-top: 1px solid var(--line); padding: .8rem 0; }
summary { cursor: pointer; font-weight: 600; }
details[open] summary { margin-bottom: .8rem; }
footer { margin-top: 4rem; padding-bottom: 3rem; }
@media (max-width: 40rem) {
  .columns { grid-template-columns: repeat(var(--narrow), minmax(0, 1fr)); }
  .stats { grid-template-columns: 1fr 1fr; }
  .stats li { padding: .9rem 1rem; }
  .stats li:last-child:nth-child(odd) { grid-column: 1 / -1; }
  .stats strong { font-size: 1.8rem; }
  th, td { padding: .45rem .5rem; }
  table { font-size: .875rem; }
  .wide video { width: auto; max-width: none; height: 11rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .6rem; }
}
@media print { body { background: #fff; } section { break-inside: avoid; } }
"""
