from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl.errors import ConfigError
from reelrl.file_trust import is_foreign
from reelrl.settings import config, yaml_text

if TYPE_CHECKING:
    from collections.abc import Callable


class Order(Enum):
    FIRST = 1
    LAST = 2


class Rate(StrEnum):
    CONSTANT = "cbr"
    VARIABLE = "vbr"


@dataclass(frozen=True, kw_only=True)
class Encoder:
    preset: int = 8
    rate: Rate = Rate.CONSTANT
    fps: Fraction = Fraction(25)

    def __post_init__(self) -> None:
        if self.preset > 13:
            raise ConfigError(f"preset is {self.preset}; give 13 or less")


@dataclass(frozen=True, kw_only=True)
class Training:
    encoder: Encoder = Encoder()
    teacher: Encoder | None = None
    learning_rate: float = 1e-3
    note: str = ""
    fast: bool = False
    folder: Path = Path("runs")
    order: Order = Order.FIRST
    device: Literal["cpu", "cuda"] = "cpu"
    sizes: tuple[int, ...] = (64, 64)
    span: tuple[int, str] = (0, "s")
    names: list[str] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)
    limit: int | str | None = None


# Any text but lone surrogates, which no file can hold, and names of foreign code, which none may.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda each: not is_foreign(each))
numbers = st.floats(allow_nan=False)
encoders = st.builds(Encoder, preset=st.integers(-1, 13), rate=st.sampled_from(Rate), fps=st.fractions())
trainings = st.builds(
    Training,
    encoder=encoders,
    teacher=st.none() | encoders,
    learning_rate=numbers,
    note=text | st.sampled_from(["1e-3", "yes", "null", "16:9", "010", "2026-01-01", "<<", "=", ".inf", "20_000"]),
    fast=st.booleans(),
    folder=text.map(lambda name: Path(name.replace("\0", ""))),
    order=st.sampled_from(Order),
    device=st.sampled_from(["cpu", "cuda"]),
    sizes=st.lists(st.integers()).map(tuple),
    span=st.tuples(st.integers(), text),
    names=st.lists(text, max_size=4),
    weights=st.dictionaries(text, numbers, max_size=4),
    limit=st.none() | st.integers() | text,
)


@pytest.mark.slow
@given(trainings)
def test_saved_settings_reload_to_the_equal_object(settings: Training) -> None:
    assert config.loads(Training, config.dumps(settings)) == settings


@pytest.mark.slow
@given(trainings, trainings)
def test_differences_are_all_that_is_needed(settings: Training, base: Training) -> None:
    assert config.merge(base, config.differences(settings, base)) == settings


@given(text)
def test_any_text_can_be_set(value: str) -> None:
    quoted = yaml_text.write(value).removesuffix("...\n").strip()
    assert config.override(Training(), [f"note={quoted}"]).note == value


def test_settings_survive_a_file(tmp_path: Path) -> None:
    settings = Training(learning_rate=1e-5, teacher=Encoder(fps=Fraction(30000, 1001)))
    config.save(settings, tmp_path / "config.yaml")
    assert config.load(Training, tmp_path / "config.yaml") == settings


def test_single_values_are_set_by_dotted_key() -> None:
    settings = config.override(
        Training(),
        [
            "encoder.preset=10",
            "learning_rate=3",
            "note=10",
            "sizes=[1, 2]",
            "weights.psnr=0.5",
            "encoder.fps=30000/1001",
        ],
    )
    assert settings.encoder == Encoder(preset=10, fps=Fraction(30000, 1001))
    assert (settings.learning_rate, settings.note, settings.sizes) == (3.0, "10", (1, 2))
    assert settings.weights == {"psnr": 0.5}


def test_a_union_with_text_takes_what_was_typed() -> None:
    assert config.override(Training(), ["limit=1.5"]).limit == "1.5"
    assert config.override(Training(), ["limit=15"]).limit == 15


def test_setting_a_part_of_an_absent_thing_makes_it() -> None:
    assert config.override(Training(), ["teacher.preset=4"]).teacher == Encoder(preset=4)
    assert config.override(Training(teacher=Encoder()), ["teacher=null"]).teacher is None


def test_assignments_are_checked_together_not_one_by_one() -> None:
    @dataclass(frozen=True)
    class Pair:
        low: int = 0
        high: int = 1

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ConfigError("low is above high")

    assert config.override(Pair(), ["low=5", "high=6"]) == Pair(5, 6)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("encoder.presett=1", r"unknown setting 'encoder.presett'; did you mean 'encoder.preset'\?"),
        ("encodr.preset=1", r"unknown setting 'encodr'; did you mean 'encoder'\?"),
        ("encoder.preset=fast", "'encoder.preset': a whole number is needed, found str 'fast'"),
        ("encoder.preset=1.0", "'encoder.preset': a whole number is needed, found float 1.0"),
        ("encoder.preset=true", "'encoder.preset': a whole number is needed, found bool True"),
        ("encoder.preset=14", "^encoder: preset is 14; give 13 or less"),
        ("encoder.preset.x=1", "encoder.preset is 8 and has no parts"),
        ("encoder.fps=1/0", "'encoder.fps': a number or fraction such as 30000/1001 is needed, found str '1/0'"),
        ("encoder.rate=cbrr", r"'encoder.rate' is 'cbrr'; did you mean 'cbr'\?"),
        ("encoder=3", "'encoder': settings of Encoder .* is needed, found int 3"),
        ("fast=yes", "'fast': true or false is needed, found str 'yes'"),
        ("fast=1", "'fast': true or false is needed, found int 1"),
        ("device=gpu", "'device' is 'gpu'; .*cpu"),
        ("sizes=[1, a]", r"'sizes\[1\]': a whole number is needed, found str 'a'"),
        ("sizes=12", "'sizes': a list is needed, found int 12"),
        ("span=[1]", r"'span' has 1 entries \[1\]; it needs 2"),
        ("weights=[]", "'weights': a mapping is needed"),
        ("limit=[1]", "'limit': a whole number or text or null is needed, found list"),
        ("note", "--set got 'note'; write it as key=value"),
        ("=3", "--set got '=3'; write it as key=value"),
        ("sizes=[1", "--set sizes line 1 is not valid YAML"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.override(Training(), [assignment])


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("fast: no", "'fast': true or false is needed, found str 'no'"),
        ("note: 10", "'note': text is needed, found int 10"),
        ("note: a\nnote: b", "line 2 is not valid YAML: 'note' is written twice"),
        ("- 1", "holds list; settings are `key: value` lines"),
        ("a: b: c", "line 1 is not valid YAML"),
        ("note: !!python/object/apply:os.system [echo]", "not valid YAML: could not determine a constructor"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(yaml: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.loads(Training, yaml)


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [("1e-3", 1e-3), (".5", 0.5), ("-.inf", float("-inf")), ("100_000", 100_000.0), ("7", 7.0), ("1E5", 1e5)],
)
def test_numbers_may_be_written_as_people_write_them(yaml: str, expected: float) -> None:
    assert config.loads(Training, f"learning_rate: {yaml}").learning_rate == expected


def test_an_enum_is_written_by_its_text_and_read_by_its_name_too() -> None:
    assert config.to_mapping(Training())["order"] == "FIRST"
    assert config.loads(Encoder, "rate: VARIABLE").rate is Rate.VARIABLE


def test_named_settings_hold_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pensieve.yaml").write_text("encoder: {rate: vbr}\nnote: p\n")
    monkeypatch.setattr(config, "CONFIGS", tmp_path)
    base = Training(fast=True, encoder=Encoder(preset=3))
    expected = Training(fast=True, encoder=Encoder(preset=3, rate=Rate.VARIABLE), note="p")
    assert config.named(base, "pensieve") == expected
    assert config.named(base, tmp_path / "pensieve.yaml") == expected
    with pytest.raises(ConfigError, match=r"no settings are named 'pensive'; did you mean 'pensieve'\?"):
        config.named(base, "pensive")
    with pytest.raises(ConfigError, match=r"cannot read .*absent.yaml: no such file"):
        config.named(base, tmp_path / "absent.yaml")


def test_every_named_settings_file_of_the_package_is_a_mapping() -> None:
    for name in config.known_configs():
        assert config.read_yaml(config.CONFIGS / f"{name}.yaml")


def test_a_required_setting_is_asked_for() -> None:
    @dataclass(frozen=True)
    class Needs:
        clip: str

    with pytest.raises(ConfigError, match="'clip' is missing and has no default"):
        config.loads(Needs, "")


@pytest.mark.parametrize("read", [config.load, config.read_yaml])
def test_a_binary_file_is_refused(tmp_path: Path, read: Callable[..., Any]) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read(*([Training] if read is config.load else []), tmp_path / "a.yaml")


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/zero has more than 4,194,304 bytes"):
        config.read_yaml("/dev/zero")


@dataclass(frozen=True, kw_only=True)
class Renamed:
    ALIASES: ClassVar[dict[str, str]] = {"looks": "frames_per_row"}

    frames_per_row: int = 1


@dataclass(frozen=True, kw_only=True)
class Outer:
    ALIASES: ClassVar[dict[str, str]] = {"eyes": "reader"}

    reader: Renamed = Renamed()


def test_a_former_key_is_read_from_everywhere_and_never_written(tmp_path: Path) -> None:
    four = Outer(reader=Renamed(frames_per_row=4))
    assert config.loads(Outer, "eyes: {looks: 4}") == four
    assert config.merge(Outer(), {"eyes": {"looks": 4}}) == four
    assert config.override(Outer(), ["eyes.looks=4"]) == four
    (tmp_path / "old.yaml").write_text("eyes: {looks: 4}\n")
    assert config.named(Outer(), tmp_path / "old.yaml") == four
    assert config.to_mapping(four) == {"reader": {"frames_per_row": 4}}
    assert config.current_key(Outer(), "eyes.looks") == "reader.frames_per_row"
    assert config.current_key(Outer(), "reader.other") == "reader.other"


def test_one_setting_by_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'reader.looks' and 'reader.frames_per_row' are the same setting"):
        config.loads(Outer, "reader: {looks: 4, frames_per_row: 2}")
    with pytest.raises(ConfigError, match="'looks' and 'frames_per_row' are the same setting"):
        config.merge(Renamed(), {"looks": 4, "frames_per_row": 2})


def test_an_unknown_key_is_suggested_a_name_of_today() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'frames_row'; did you mean 'frames_per_row'\?"):
        config.loads(Renamed, "frames_row: 4")


def test_former_names_of_settings_files_stand_for_files_that_are() -> None:
    assert set(config.FORMER_CONFIGS.values()) <= set(config.known_configs())
    assert not set(config.FORMER_CONFIGS) & set(config.known_configs())
