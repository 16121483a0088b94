"""A backend of another name is known by one line in a table: everything else is asked of its capabilities."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reelrl
from reelrl import names
from reelrl.cli.main import main
from reelrl.encode import (
    EncoderSession,
    EncoderSettings,
    SuperblockQpEnv,
    capabilities,
    encode_clip,
    first_pass,
    load_minigop_controller,
    open_source,
    run_controller,
)
from reelrl.encode.codecs.svtav1 import SvtAv1
from reelrl.encode.superblock.search import SearchSettings, search
from reelrl.errors import ConfigError
from tests.encode.makers import bytes_of, scene

if TYPE_CHECKING:
    from reelrl.encode import Capabilities


class Third(SvtAv1):
    """A library that is there, with other abilities than it really has."""

    @staticmethod
    def capabilities() -> Capabilities:
        return replace(
            SvtAv1.capabilities(),
            backend="third",
            title="Third",
            maps_in=("cqp",),
            first_pass_in=(),
            own_modes=("crf",),
        )


class ThirdWithoutMiniGops(Third):
    @staticmethod
    def capabilities() -> Capabilities:
        return replace(Third.capabilities(), minigops=False)


@pytest.fixture(autouse=True)
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(names.BACKENDS, "third", f"{__name__}:Third")
    monkeypatch.setitem(names.BACKENDS, "fourth", f"{__name__}:ThirdWithoutMiniGops")


def test_it_encodes_by_its_name() -> None:
    assert capabilities("third").title == "Third"
    packets = [encode_clip(scene(frames=4), EncoderSettings(backend=name)).packets for name in ("third", "svtav1")]
    assert bytes_of(list(packets[0])) == bytes_of(list(packets[1]))


def test_maps_are_refused_where_it_says_that_it_ignores_them() -> None:
    clip = scene(frames=2)
    settings = EncoderSettings(backend="third", rate_control="crf")
    with (
        EncoderSession(settings.for_clip(clip)) as session,
        pytest.raises(ConfigError, match="rate_control = crf: Third takes maps in cqp only"),
    ):
        session.send(next(iter(clip)), offsets=[0, 0, 0, 0])
    with pytest.raises(ConfigError, match="Third takes maps in cqp only"):
        SuperblockQpEnv(clip, encoder=settings)


def test_a_first_pass_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="Third has no first pass"):
        first_pass(scene(frames=2), EncoderSettings(backend="third"))


def test_the_superblock_environment_runs_on_it() -> None:
    env = SuperblockQpEnv(scene(frames=2), encoder=EncoderSettings(backend="third", picture_qp=True))
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[4]
    env.close()


def test_mini_gops_are_steered_where_it_can() -> None:
    clip, settings = scene(frames=9), EncoderSettings(backend="third", structure="low_delay", hierarchical_levels=2)
    run = run_controller(open_source(clip, settings, kbps=100), load_minigop_controller("leaky-bucket"))
    assert run.kbps > 0
    with pytest.raises(ConfigError, match="backend = fourth has no mini-GOPs"):
        open_source(clip, replace(settings, backend="fourth"), kbps=100)


def test_the_search_is_refused_where_maps_are_not_exact() -> None:
    with pytest.raises(ConfigError, match="backend = third: the search is for encoders where a map is exact"):
        search(scene(frames=2), SearchSettings(encoder=EncoderSettings(backend="third")))


def test_the_command_line_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["train", "superblock"], ["evaluate", "superblock"], ["ladder"]):
        assert main([*command, "--help"]) == 0
        assert "third" in capsys.readouterr().out


@pytest.mark.slow
def test_nothing_asks_for_a_backends_name() -> None:
    """Comparing it with a word is how the same knowledge comes to lie in two places."""
    asked = []
    for path in sorted(Path(reelrl.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                if {"aom", "svtav1"} & {side.value for side in sides if isinstance(side, ast.Constant)}:
                    asked.append(f"{path.name}:{node.lineno}")
    assert asked == []
