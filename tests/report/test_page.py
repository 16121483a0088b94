from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.errors import ConfigError
from reelrl.report import page
from reelrl.report.charts import Axis, Line, line_chart, log_ticks, nice_ticks, signed, superblock_map

if TYPE_CHECKING:
    from collections.abc import Sequence

VOID = {"meta", "img", "br", "link"}
PICTURE = np.full((96, 128, 3), 90, np.uint8)
numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))


class Checker(HTMLParser):
    """Fails unless every element is closed where it should be; keeps all attributes it meets."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(markup: str) -> list[tuple[str, dict[str, str | None]]]:
    checker = Checker()
    checker.feed(markup)
    checker.close()
    assert checker.open == []
    return checker.found


def outside_sources(markup: str) -> list[str]:
    """Whatever a browser would fetch that is neither inside the page nor beside it."""
    fetched = [
        value or "" for _, found in checked(markup) for key, value in found.items() if key in ("src", "href", "poster")
    ]
    return [
        value for value in fetched if "//" in value and not value.startswith("data:image/png;base64,")
    ] + re.findall(r"url\((?!data:)|@import", markup)


def whole_page() -> str:
    chart = line_chart([Line("a", [(1, 2), (10, 4)], notes=["x", "y"])], x=Axis("x", log=True), y=Axis("y"), title="t")
    return page.page(
        "Title",
        "Lead",
        [
            page.stats([page.Stat("+1 dB", "gain", "note")]),
            page.section(
                "Heading",
                "Words",
                page.columns(page.figure(page.image(PICTURE, "grey"), "caption"), page.figure(chart, "caption")),
                page.table(["a", "b"], [["x", "1"], ["", "2"]], "caption"),
                page.video("a.mp4", "a video", 128, 96),
                page.video("b.mp4", "a wide video", 960, 96, PICTURE),
                page.details("more", page.code("a < b"), page.facts([("name", "value")])),
                superblock_map(PICTURE, [1, -1, 0, 2], title="map", boxes=[(0, 0, 64, 64)]),
            ),
        ],
        foot="foot",
    )


def test_a_page_is_well_formed_and_fetches_nothing() -> None:
    found = checked(whole_page())
    assert outside_sources(whole_page()) == []
    assert "script" not in {name for name, _ in found}
    assert all(attributes.get("alt") for name, attributes in found if name == "img")
    drawings = [attributes for name, attributes in found if name == "svg"]
    assert all(a.get("aria-label") or a.get("aria-hidden") for a in drawings)


def test_columns_of_words_stand_to_the_left_and_columns_of_figures_to_the_right() -> None:
    markup = page.table(
        ["who", "what", "how much"], [["a", "map", "-1.5 [-2, -1]"], ["", "none", ""], ["b", "", "+3 %"]]
    )
    cells = [found.get("class") for name, found in checked(markup) if name == "td"]
    assert cells == ["words", None] * 3
    heads = [found.get("class") for name, found in checked(markup) if name == "th" and found["scope"] == "col"]
    assert heads == ["words", "words", None]


@settings(deadline=None)
@given(st.text())
def test_text_is_shown_and_never_obeyed(words: str) -> None:
    hostile = words + '<script>alert("1")</script>&amp;'
    for made in (
        page.tag("p", hostile, title=hostile),
        page.table([hostile], [[hostile]], hostile),
        page.image(PICTURE, hostile),
        page.video(hostile, hostile, 2, 2),
    ):
        assert "script" not in {name for name, _ in checked(made)}


def test_markup_is_kept_as_it_is() -> None:
    assert page.text(page.tag("b", "a & b")) == "<b>a &amp; b</b>"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "least"),
    [("ink", 7.0), ("soft", 4.5), ("one", 4.5), ("two", 4.5), ("three", 4.5), ("four", 4.5), ("quiet", 3.0)],
)
def test_colours_stand_out_from_their_ground(scheme: int, ink: str, least: float) -> None:
    def colour(name: str) -> float:
        return luminance(re.findall(rf"--{name}: (#[0-9a-f]{{6}})\b", whole_page())[scheme])

    dark, light = sorted([colour("ground"), colour(ink)])
    assert (light + 0.05) / (dark + 0.05) >= least


@settings(deadline=None)
@given(numbers, st.floats(1e-3, 1e6))
def test_ticks_are_few_and_cover_the_range(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert ticks[0] <= low + 1e-6 * span
    assert ticks[-1] >= low + span - 1e-6 * span
    assert 2 <= len(ticks) <= 8
    assert list(ticks) == sorted(set(ticks))


@settings(deadline=None)
@given(st.floats(1e-2, 1e6), st.floats(1.0, 1e4))
def test_log_ticks_cover_the_range(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio)
    assert ticks[0] <= low * (1 + 1e-6)
    assert ticks[-1] >= low * ratio * (1 - 1e-6)
    assert len(ticks) >= 2


def test_a_log_axis_has_no_zero() -> None:
    with pytest.raises(ConfigError, match="0 has no place on a logarithmic axis"):
        line_chart([Line("a", [(0, 1), (1, 2)])], x=Axis("x", log=True), y=Axis("y"), title="t")


@settings(deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_every_point_lies_inside_the_chart_and_tells_its_figures(points: list[tuple[float, float]]) -> None:
    notes = [f"point {i}" for i in range(len(points))]
    made = line_chart([Line("a", points, notes=notes)], x=Axis("x"), y=Axis("y"), title="t")
    hits = [found for name, found in checked(made) if name == "circle" and found.get("fill-opacity") == "0"]
    assert len(hits) == len(points)
    assert all(0 <= float(hit["cx"] or -1) <= 480 and 0 <= float(hit["cy"] or -1) <= 310 for hit in hits)
    assert all(f"<title>{note}</title>" in made for note in notes)


def test_a_chart_without_points_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to draw in 'sizes'"):
        line_chart([Line("a", [])], x=Axis("x"), y=Axis("y"), title="sizes")


def test_a_map_has_one_block_per_superblock_and_none_sticks_out() -> None:
    made = superblock_map(PICTURE, [[1, -2], [0, 3]], title="map")
    blocks = [found for name, found in checked(made) if name == "rect"]
    assert [block["height"] for block in blocks] == ["64", "64", "32", "32"]
    assert sum(int(b["width"] or 0) * int(b["height"] or 0) for b in blocks) == PICTURE.shape[0] * PICTURE.shape[1]


def test_better_is_blue_whichever_way_values_run() -> None:
    lower = superblock_map(PICTURE, [-1, 1, 1, 1], title="map")
    higher = superblock_map(PICTURE, [-1, 1, 1, 1], title="map", lower_is_better=False)
    assert (lower.count("--better"), higher.count("--better")) == (1, 3)


def test_a_map_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="3 values for 4 superblocks"):
        superblock_map(PICTURE, [1, 2, 3], title="map")


@pytest.mark.parametrize(("value", "shown"), [(1.26, "+1.3"), (-0.31, "\N{MINUS SIGN}0.3"), (-0.04, "0.0"), (0, "0.0")])
def test_numbers_carry_their_sign(value: float, shown: str) -> None:
    assert signed(value, 1) == shown
