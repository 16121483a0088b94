"""Text that is too deep, too long or multiplied by aliases ends in one short error."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.cli.main import main
from reelrl.errors import CheckpointError, ConfigError, ReelError, RunError
from reelrl.runs import checkpoint_file
from reelrl.runs.checkpoints import MANIFEST, STATE, Checkpoints
from reelrl.runs.folder import Run, RunFolder
from reelrl.runs.records import Log, read_records
from reelrl.settings import config, yaml_text
from reelrl.storage.plain_data import DEEPEST, LARGEST_INT, check_limits, parse_json, parse_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONGEST_ERROR = 1000
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@dataclass(frozen=True)
class Settings:
    count: int = 1
    names: tuple[str, ...] = ()
    anything: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize("deep", ["[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000, "[" * 100_000])
def test_nesting_of_a_thousand_brackets_is_an_error(deep: str) -> None:
    with pytest.raises(ValueError, match=f"nested deeper than {DEEPEST}|Expecting"):
        parse_json(deep)
    with pytest.raises(ConfigError, match=r"settings is not valid YAML|settings line"):
        config.loads(Settings, f"anything: {{a: {deep}}}")
    with pytest.raises(ConfigError, match="--set anything"):
        config.override(Settings(), [f"anything={deep}"])


def test_what_is_as_deep_as_allowed_is_read() -> None:
    text = "[" * DEEPEST + "]" * DEEPEST
    assert parse_json(text) == yaml_text.parse(text, "it")
    with pytest.raises(ValueError, match="nested deeper"):
        parse_json(f"[{text}]")


@pytest.mark.parametrize("text", [LAUGHS + "count: *i\n", LAUGHS + "names: *c\n", "count: &a [*a]\n", LAUGHS])
def test_aliases_do_not_grow_an_error(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config.loads(Settings, text)
    assert len(str(raised.value)) < LONGEST_ERROR


@pytest.mark.parametrize(
    "text", ["count: " + "9" * 100_000, "x" * 100_000 + ": 1", "count: " + "x" * 100_000, "y" * 2**21]
)
def test_long_values_are_cut_in_errors(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config.loads(Settings, text)
    assert len(str(raised.value)) < LONGEST_ERROR


@pytest.mark.parametrize(
    "tagged", ["!!bool maybe", '!!int ""', "!!float x", "!!timestamp x", "!!timestamp 2001-01-01", "!!binary x",
               "!!set {a}", "!!python/name:os.system", "!mine x", "!!seq x", "!!map x", "!!null x"]
)  # fmt: skip
def test_tags_make_no_tracebacks(tagged: str) -> None:
    with pytest.raises(ConfigError, match=r"YAML|count"):
        config.loads(Settings, f"count: {tagged}")


def test_a_file_that_is_no_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"count: \xff\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml is not UTF-8 text \(byte 7\)"):
        config.load(Settings, tmp_path / "mine.yaml")
    with Run.create(tmp_path, Settings(), stage="x", name="x", tensorboard=False) as run:
        (run.folder / "config.yaml").write_bytes(b"stage: \xff\n")
    with pytest.raises(RunError, match=r"config\.yaml is not UTF-8"):
        RunFolder(run.folder).settings(Settings)


@pytest.mark.parametrize(
    ("value", "words"), [(LARGEST_INT, "1024 bits"), (-LARGEST_INT, "1024 bits"), ([[10**400]], "1329 bits")]
)
def test_whole_numbers_fit_into_a_float(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(json.dumps(value))
    check_limits([2**128, -(2**128), True, None, "x", 1.5])


@pytest.mark.parametrize("text", [b"\xff\xfe", b"{\xff}", b"", b"{", b"1" * 5000])
def test_bytes_that_are_no_json_are_a_short_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse_json(text)
    assert len(str(raised.value)) < LONGEST_ERROR
    with pytest.raises(ValueError, match="where an object"):
        parse_object(b"[1]")


# -- checkpoints and logs ------------------------------------------------------------------------------------------


def checkpoint(folder: Path, logs: Any = ...) -> Checkpoints:
    found = Checkpoints(folder / "checkpoints")
    found.save(3, {"a": np.zeros(2)}, {} if logs is ... else {"logs": logs})
    return found


@pytest.mark.parametrize(
    "change",
    [
        {"files": "config.yaml"},
        {"files": ["config.yaml"]},
        {"files": {"config.yaml": "yes", "state.json": "yes", "tensors.safetensors": "yes"}},
        {"files": {"config.yaml": [1], "state.json": 3}},
        {"files": {}},
        {"step": "3"},
        {"step": [3]},
        {"step": -1},
        {"step": True},
        {"schema": [1]},
        {"schema": "x" * 10_000},
    ],
)
def test_manifests_of_odd_types_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    saved = checkpoint(tmp_path)
    path = saved.all()[0] / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is whole") as raised:
        saved.latest()
    assert len(str(raised.value)) < LONGEST_ERROR


@pytest.mark.parametrize("text", ["[" * 1000, "[]", '"x"', "3", "null", "\xff"])
@pytest.mark.parametrize("name", [MANIFEST, STATE])
def test_checkpoints_of_other_json_are_refused(tmp_path: Path, name: str, text: str) -> None:
    import hashlib

    saved = checkpoint(tmp_path)
    folder = saved.all()[0]
    (folder / name).write_text(text, encoding="latin-1")
    if name == STATE:  # what an attacker would do: the manifest agrees
        body = (folder / name).read_bytes()
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest["files"][STATE] = {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="is whole"):
        saved.latest()


@pytest.mark.parametrize("mark", [-1, "12", 1.5, None, True, [1], -(10**30)])
def test_logs_are_cut_at_sizes_that_a_log_can_have(tmp_path: Path, mark: Any) -> None:
    log = Log(tmp_path / "log")
    log.append({"a": 1})
    with pytest.raises(RunError, match=r"log is to be cut at byte .*; use an older checkpoint"):
        log.cut(mark)
    log.close()
    assert [*read_records(tmp_path / "log")] == [{"a": 1}]


@pytest.mark.parametrize("logs", [..., None, "x", [0, 0], {"metrics.jsonl": -5}])
def test_a_run_does_not_resume_from_odd_log_marks(tmp_path: Path, logs: Any) -> None:
    with Run.create(tmp_path, Settings(), stage="x", name="x", tensorboard=False) as run:
        run.log_metrics(0, {"a": 1.0})
    checkpoint(run.folder, logs)
    with Run.open(run.folder, tensorboard=False) as again, pytest.raises(RunError, match="log"):
        again.resume()
    assert [*RunFolder(run.folder).metrics()] == [{"step": 0, "a": 1.0}]


@pytest.mark.parametrize("line", [b"[1]\n", b"3\n", b"[" * 1000 + b"\n", b"\xff\n", b'{"a":' * 1000 + b"\n"])
def test_lines_that_are_no_records_are_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "log").write_bytes(b'{"a":1}\n' + line)
    with pytest.raises(RunError, match="line 2 is not JSON of a record"):
        list(read_records(tmp_path / "log"))


@pytest.mark.parametrize("seed", ["3", None, -1, [1], 1.5, ...])
def test_a_run_has_a_seed(tmp_path: Path, seed: Any) -> None:
    with Run.create(tmp_path, Settings(), stage="x", name="x", seed=1, tensorboard=False) as run:
        meta = run.meta
    del meta["seed"]
    (run.folder / "meta.json").write_text(json.dumps(meta if seed is ... else meta | {"seed": seed}))
    with pytest.raises(RunError, match=r"meta\.json has seed"):
        _ = RunFolder(run.folder).seed


def test_a_portable_checkpoint_has_a_step_and_a_state(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    digest = checkpoint_file._digest({})
    for facts in ("[" * 1000, "[]", json.dumps({"schema": 1, "sha256": digest, "step": "3", "state": {}}),
                  json.dumps({"schema": 1, "sha256": digest, "step": 3, "state": []})):  # fmt: skip
        save_file({}, tmp_path / "c.pt", {"reelrl": facts})
        with pytest.raises(CheckpointError, match=r"c\.pt"):
            checkpoint_file.load(tmp_path / "c.pt")


def test_every_reader_of_json_answers_a_thousand_brackets_with_an_error_of_ours(tmp_path: Path) -> None:
    from reelrl.act.recording.manifest import Manifest
    from reelrl.act.recording.maps import MapPlan
    from reelrl.encode.minigop.controllers.imitation import Imitation
    from reelrl.encode.minigop.evaluation.baseline import read_baseline
    from reelrl.stream.data.ladders import read_ladder
    from reelrl.stream.data.traces import read_trace

    path = tmp_path / "manifest.json"
    readers: list[Callable[[], Any]] = [
        lambda: Manifest.read(tmp_path),
        lambda: MapPlan.from_json(path.read_text(), path),
        lambda: Imitation.load(path),
        lambda: read_baseline(path),
        lambda: read_ladder(path),
        lambda: read_trace(path),
    ]
    for text in ("[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000):
        path.write_text(text)
        for read in readers:
            with pytest.raises(ReelError) as raised:
                read()
            assert len(str(raised.value)) < LONGEST_ERROR


def test_the_command_line_answers_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deep = "[" * 1000 + "]" * 1000
    (tmp_path / "deep.yaml").write_text(f"sac: {deep}\n")
    (tmp_path / "laughs.yaml").write_text(LAUGHS + "clips: *h\n")
    (tmp_path / "latin.yaml").write_bytes("clips: [Fl\xfcgel]\n".encode("latin-1"))
    for words in (["--set", f"clips={deep}"], *(["--config", str(path)] for path in tmp_path.glob("*.yaml"))):
        assert main(["train", "minigop", *words]) == 1
        said = capsys.readouterr().err
        assert said.startswith("error  ")
        assert said.count("\n") == 1
        assert len(said) < LONGEST_ERROR
