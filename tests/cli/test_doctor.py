from __future__ import annotations

import json
from importlib import metadata
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.cli.main import main
from reelrl.errors import EncoderMissing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def healthy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Encoders that answer, a cache of our own and no data folder; tests break one thing at a time."""
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REELRL_DATA", raising=False)
    pretend_encoders(monkeypatch, lambda name: capabilities(name), SimpleNamespace(ok=True, detail="", seconds=0.1))


def capabilities(name: str) -> SimpleNamespace:
    return SimpleNamespace(backend=name, library="lib.so", version="4.1.0", picture_qp=True, notes=("a note",))


def pretend_encoders(monkeypatch: pytest.MonkeyPatch, probe: Any, tested: Any) -> None:
    from reelrl.encode import codecs

    for module, content in (("backends", {"capabilities": probe}), ("selftest", {"run": lambda _name: tested})):
        pretended = ModuleType(f"reelrl.encode.codecs.{module}")
        vars(pretended).update(content)
        monkeypatch.setattr(codecs, module, pretended, raising=False)


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    status = main(["doctor", "--json", *arguments])
    printed = json.loads(capsys.readouterr().out)
    assert printed["ok"] is (status == 0)
    return status, {finding["what"]: (finding["state"], finding["detail"]) for finding in printed["findings"]}


def test_a_healthy_machine_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = report(capsys)
    assert status == 0
    assert found["encoder svtav1"] == ("ok", "4.1.0   self-test 0.1 s\npicture QP\na note\nlib.so")
    assert found["numpy"] == ("ok", metadata.version("numpy"))
    assert found["data"][0] == "note"


def test_the_text_ends_with_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "next   reel demo"
    assert any(line.startswith("ok     encoder aom") and "self-test" not in line for line in lines)


def test_a_missing_encoder_is_essential(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def probe(name: str) -> Any:
        raise EncoderMissing(f"no library for {name}")

    pretend_encoders(monkeypatch, probe, None)
    status, found = report(capsys)
    assert status == 1
    assert found["encoder aom"] == ("miss", "no library for aom")


def test_a_failed_self_test_is_essential(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pretend_encoders(monkeypatch, capabilities, SimpleNamespace(ok=False, detail="recon differs", seconds=0.1))
    status, found = report(capsys)
    assert status == 1
    assert "self-test failed: recon differs" in found["encoder aom"][1]
    assert report(capsys, "--quick")[0] == 0


@pytest.mark.parametrize(
    ("package", "line", "state", "status"),
    [("numpy", "numpy", "miss", 1), ("ale-py", "ale-py [atari]", "note", 0)],
)
def test_a_missing_package_comes_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    package: str,
    line: str,
    state: str,
    status: int,
) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name == package:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    found_status, found = report(capsys)
    assert found_status == status
    assert found[line][0] == state
    assert "not installed; run: pip install '" in found[line][1]


def test_a_stage_says_what_it_lacks_and_the_line_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = metadata.version
    absent = {"vizdoom", "tensordict", "benchmarl"}

    def version(name: str) -> str:
        if name in absent:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    status, found = report(capsys)
    assert status == 0
    assert found["stage act"] == (
        "note",
        "lacks vizdoom, tensordict, benchmarl; run: pip install 'reelrl[doom,marl]' && pip install --no-deps benchmarl",
    )
    absent.clear()
    assert {report(capsys)[1][f"stage {name}"][0] for name in ("encode", "stream", "see", "act")} == {"ok"}


def test_a_package_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "17.0" if name == "av" else real(name))
    assert report(capsys)[1]["av"] == ("miss", "17.0, but <19,>=18.1 is needed; run: pip install 'av<19,>=18.1'")


def test_the_data_folder_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("clips/a.y4m", "clips/b.y4m", "traces/t.csv"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setenv("REELRL_DATA", str(tmp_path / "data"))
    assert report(capsys)[1]["data"] == ("ok", f"{tmp_path / 'data'}   2 clips   1 traces")
    monkeypatch.setenv("REELRL_DATA", str(tmp_path / "absent"))
    status, found = report(capsys)
    assert status == 1
    assert "which is no folder; correct or unset it" in found["data"][1]


def test_a_cache_that_cannot_be_written_is_essential(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "file" / "cache"))
    status, found = report(capsys)
    assert status == 1
    assert "or set REELRL_CACHE" in found["cache"][1]
