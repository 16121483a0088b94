"""Settings: every class of them as YAML, as `--set`, inside a run folder, and as the files of a Doom training."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from reelrl.act.location.frame_reader.train import FrameReaderTraining
from reelrl.act.location.train import LocationTraining
from reelrl.act.marl import checks, yaml_files
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.act.recording.manifest import RecordingSettings
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.minigop.train import MiniGopTraining
from reelrl.encode.superblock.fit import FitSettings
from reelrl.encode.superblock.search import SearchSettings
from reelrl.encode.superblock.train import SuperblockTraining
from reelrl.runs.folder import Run, RunFolder
from reelrl.see.train import AutoEncoderTraining
from reelrl.settings import config, yaml_text
from reelrl.stream.data.ladder_encoding import LadderSettings
from reelrl.stream.train import AbrTraining
from tests.campaign.mutations import STRANGE_TEXTS, mutated_tree, odd_text, replace_by_something_else, strange
from tests.campaign.trial import command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tests.campaign.trial import Feed

USUAL: dict[str, Any] = {
    "abr": AbrTraining(),
    "autoencoder": AutoEncoderTraining(source="ale:Breakout"),
    "doom_task": DoomTaskConfig(),
    "encoder": EncoderSettings(),
    "frame-reader": FrameReaderTraining(data="matches"),
    "fit": FitSettings(),
    "ladder": LadderSettings(),
    "location": LocationTraining(data="matches"),
    "minigop": MiniGopTraining(),
    "recording": RecordingSettings(),
    "search": SearchSettings(),
    "superblock": SuperblockTraining(),
}
_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{name}'] * 9)}]\n" for name, after in zip("abcdefgh", "bcdefghi", strict=True)
)
_ = checks  # what `reel check doom` needs takes seconds to import, and is no part of a trial
ODD_YAML = [
    _BOMB,
    "a: &a\n  b: *a\n",
    "!!python/object/apply:os.system ['true']",
    "<<: {a: 1}\n<<: {b: 2}\n",
    "? [a, b]\n: 1\n",
    "key: " + "[" * 3000,
    "- " * 3000,
    "{" * 2000,
    "a: 1\n---\nb: 2\n",
    "%YAML 9.9\n---\na: 1\n",
    "a: 2026-13-45\nb: 1:2:3:4\nc: 0x\n",
    "a: !!binary x\n",
    "a: |2000\n b\n",
]


def make_sources(folder: Path) -> None:
    for name, settings in USUAL.items():
        config.save(settings, folder / f"{name}.yaml")
    for part, path in yaml_files.SHIPPED.items():
        (folder / f"conf_{part}.yaml").write_bytes(path.read_bytes())
    with Run.create(folder / "runs", USUAL["abr"], stage="abr", name="abr", seed=0, tensorboard=False):
        pass


def break_one(sources: Path, folder: Path, outside: Path, chance: Random) -> Iterator[Feed]:
    name = chance.choice(sorted(USUAL))
    usual = USUAL[name]
    path = folder / "config.yaml"
    path.write_bytes(_broken(yaml_text.parse((sources / f"{name}.yaml").read_text(), name), chance))
    if chance.random() < 0.05:
        replace_by_something_else(path, outside, chance, pipes=False)
    yield f"load {name}", lambda: _load_and_write(type(usual), path)
    yield f"named {name}", lambda: config.named(usual, path)
    assignments = [_assignment(usual, chance) for _ in range(chance.choice([1, 1, 3]))]
    yield f"override {name}", lambda: config.override(usual, assignments)
    run = next((sources / "runs").iterdir())
    copied = folder / run.name
    copied.mkdir()
    for each in run.iterdir():
        if each.is_file() and each.name != ".lock":
            (copied / each.name).write_bytes(each.read_bytes())
    stated = yaml_text.parse((run / "config.yaml").read_text(), "config")
    (copied / "config.yaml").write_bytes(_broken(stated, chance))
    yield "run folder", lambda: (RunFolder(copied).stage, RunFolder(copied).settings(AbrTraining))
    if chance.random() < 0.1:
        part = chance.choice(sorted(yaml_files.SHIPPED))
        doom = folder / f"{part}.yaml"
        doom.write_bytes(_broken(yaml_files.read(sources / f"conf_{part}.yaml"), chance))
        yield command("check", "doom", "--algorithm-file" if part == "algorithm" else f"--{part}", doom)


def _broken(tree: Any, chance: Random) -> bytes:
    what = chance.random()
    if what < 0.1:
        return chance.choice(ODD_YAML).encode()
    if what < 0.25:
        return odd_text(yaml_text.write(tree), chance)
    try:
        return yaml_text.write(mutated_tree(tree, chance)).encode("utf-8", "surrogatepass")
    except RecursionError:  # nested too deep to be written so
        return b"key: " + b"[" * 900 + b"]" * 900


def _load_and_write(cls: type[Any], path: Path) -> None:
    """What can be loaded can be saved, and is the same when it is loaded again."""
    settings = config.load(cls, path)
    text = config.dumps(settings)
    again = config.loads(cls, text)
    if again != settings and "nan" not in text:
        raise AssertionError(f"settings are not what was saved: {again} after {settings}")


def _assignment(usual: Any, chance: Random) -> str:
    keys = [field.name for field in dataclasses.fields(usual)]
    key = chance.choice([*keys, *STRANGE_TEXTS])
    if chance.random() < 0.3:
        key += "." + str(chance.choice([*keys, "a.b.c", ""]))
    values = [*STRANGE_TEXTS, "[" * 1000, "{a: " * 1000, "&a [*a]", "!!python/name:os.system", "{a: 1, a: 2}"]
    value = chance.choice(values) if chance.random() < 0.5 else str(strange(chance))
    return f"{key}={value}" if chance.random() < 0.97 else value
