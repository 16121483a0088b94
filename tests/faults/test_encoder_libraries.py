"""Encoder libraries that are missing, too old, or something else: an error that says what to install."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from reelrl.encode import capabilities
from reelrl.encode.codecs import svtav1_api
from reelrl.encode.codecs.aom import api as aom_api
from reelrl.encode.codecs.libraries import find_library, parse_version
from reelrl.errors import EncoderMissing
from tests.encode.makers import BACKENDS, run_python

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

VARIABLES = {"svtav1": "REELRL_SVTAV1_LIB", "aom": "REELRL_AOM_LIB"}
OTHER = {"svtav1": "aom", "aom": "svtav1"}
each_backend = pytest.mark.parametrize("backend", BACKENDS)

TRY_ALL = """
from reelrl.encode import EncoderSession, EncoderSettings, capabilities
from reelrl.encode.codecs.selftest import run
from reelrl.errors import EncoderMissing
for attempt in (capabilities, run, lambda name: EncoderSession(EncoderSettings(backend=name, width=64, height=64))):
    try:
        attempt({backend!r})
    except EncoderMissing as error:
        print(error)
assert capabilities({other!r}).version
"""


def messages(backend: str, library: str) -> list[str]:
    """What probing, the self-test and opening a session say when a backend's library is `library`."""
    done = run_python(TRY_ALL.format(backend=backend, other=OTHER[backend]), environment={VARIABLES[backend]: library})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


@each_backend
def test_a_library_that_is_not_there_is_named(backend: str, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.so")
    assert (
        messages(backend, gone)
        == [f"{VARIABLES[backend]} = {gone} is no file; point it at the library or unset it"] * 3
    )


@each_backend
def test_a_text_file_is_no_library(backend: str, tmp_path: Path) -> None:
    text = tmp_path / "lib.so"
    text.write_text("not a library")
    said = messages(backend, str(text))
    assert len(said) == 3
    assert all(line.startswith(f"{text} is no usable") and "reinstall" in line for line in said)


@each_backend
def test_another_library_is_told_from_the_right_one(backend: str) -> None:
    other = capabilities(OTHER[backend]).library
    said = messages(backend, other)
    assert len(said) == 3
    assert all(line.startswith(f"{other} is no usable") and "undefined symbol" in line for line in said)


@pytest.mark.parametrize("version", ["v3.1.2", "3.0.0", "v1.4.1", "5.0.0"])
def test_other_versions_of_svtav1_are_refused_with_the_command_that_helps(version: str) -> None:
    with pytest.raises(EncoderMissing, match=rf"SVT-AV1 {version} found, version 4 needed; run: pip install 'av>="):
        svtav1_api.check_version(version)


@pytest.mark.parametrize("version", ["v3.13.1", "3.12.1", "4.0.0", "3.15.0"])
def test_other_versions_of_libaom_are_refused_with_the_command_that_helps(version: str) -> None:
    with pytest.raises(EncoderMissing, match=rf"libaom {version} found, 3.14 needed; run: pip install 'opencv-python"):
        aom_api.check_version(version)


@pytest.mark.parametrize(
    ("text", "version"),
    [("v4.1.0", (4, 1, 0)), ("4.1", (4, 1, 0)), ("v3.14.1-12-gabcdef", (3, 14, 1)), ("4", (4, 0, 0))],
)
def test_versions_are_read(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "four", "v4.x.0"])
def test_what_is_no_version_is_shown(text: str) -> None:
    with pytest.raises(EncoderMissing, match=f"calls itself version '{text}', which is no version"):
        parse_version(text)


def test_a_wheel_without_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REELRL_NO_LIB", raising=False)
    with pytest.raises(EncoderMissing, match=r"no libnothing\*\.so in the wheels of numpy, nosuchmodule; install"):
        find_library("REELRL_NO_LIB", {"numpy": "numpy.libs", "nosuchmodule": "x.libs"}, "libnothing*.so")


@each_backend
def test_the_variable_chooses_the_library(backend: str) -> None:
    library = capabilities(backend).library
    code = f"from reelrl.encode import capabilities; print(capabilities({backend!r}).library)"
    assert run_python(code, environment={VARIABLES[backend]: library}).stdout.strip() == library


@each_backend
def test_finding_a_library_imports_neither_wheel(backend: str) -> None:
    assert find_spec("av")
    assert find_spec("cv2")
    code = f"import sys; from reelrl.encode import capabilities; capabilities({backend!r}); "
    code += "print({'av', 'cv2'} & set(sys.modules))"
    assert run_python(code).stdout == "set()\n"
