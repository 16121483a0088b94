from __future__ import annotations

import importlib
import subprocess
import sys
from collections import OrderedDict
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

import reelrl
from reelrl import names
from reelrl.act.video.encoder import ENCODERS
from reelrl.errors import ConfigError, ReelError

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = [(kind, name) for kind, table in names.TABLES.items() for name in table]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_of_every_table_resolves(kind: str, name: str) -> None:
    assert callable(names.resolve(names.TABLES[kind], name))


def test_a_foreign_class_is_imported_as_written() -> None:
    assert names.resolve(names.BITRATE_CONTROLLERS, "collections:OrderedDict", foreign=True) is OrderedDict


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("svtav", r"unknown backend 'svtav'; did you mean 'svtav1'\?"),
        ("zzz", "unknown backend 'zzz'; choose from aom, svtav1"),
        ("no_such_pkg.mine:Policy", "no module 'no_such_pkg.mine'; install it or add its folder to PYTHONPATH"),
        ("collections:OrderedDic", r"collections has no 'OrderedDic'; did you mean 'OrderedDict'"),
        (":Policy", "cannot import ':Policy'"),
        ("..x:Policy", "cannot import '..x:Policy'"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        names.resolve(names.BACKENDS, name, foreign=True)


def test_an_import_that_fails_inside_a_foreign_module_is_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_policy.py").write_text("import a_package_it_lacks")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_it_lacks"):
        names.resolve(names.BITRATE_CONTROLLERS, "broken_policy:Policy", foreign=True)


def test_the_public_surface_is_lazy_and_complete() -> None:
    for name in reelrl.__all__:
        assert getattr(reelrl, name) is not None
        assert name in dir(reelrl)
    assert reelrl.ReelError is ReelError
    with pytest.raises(AttributeError, match="no attribute 'Rum'; did you mean 'Run'"):
        _ = reelrl.Rum


@pytest.mark.parametrize("package", ["encode", "stream", "see", "act"])
def test_a_package_says_which_names_it_has(package: str) -> None:
    module = importlib.import_module(f"reelrl.{package}")
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


def test_what_the_documentation_imports_from_encode_is_there() -> None:
    from reelrl import encode, stream

    for name in encode.__all__:
        assert getattr(encode, name) is not None
    assert stream.load_controller is stream.load_bitrate_controller


def test_import_reelrl_imports_nothing_heavy() -> None:
    heavy = ["torch", "av", "cv2", "numba", "matplotlib", "tensorboard", "ale_py", "stable_baselines3", "PIL"]
    program = f"import sys, reelrl; print([name for name in {heavy} if name in sys.modules])"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


def test_environments_are_registered_by_import() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    assert set(names.ENVIRONMENTS) <= set(gymnasium.registry)


def test_registration_is_lazy_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    identifier = "reelrl/Nothing-v0"
    monkeypatch.setitem(names.ENVIRONMENTS, identifier, "no_such_pkg:Env")
    reelrl._register_environments()
    reelrl._register_environments()
    assert gymnasium.registry.pop(identifier).entry_point == "no_such_pkg:Env"


@pytest.mark.parametrize(
    "text",
    [
        "bba(five)",
        "bba(1,2,3,4,5,6)",
        "robustmpc(nan,x)",
        "bba(nan)",
        "bba(5,,10)",
        "bola(inf)",
        "robustmpc(2.5)",
        "lowest(1.5)",
        "ppo(3)",
    ],
)
def test_wrong_arguments_in_brackets_are_explained(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write numbers that \w+ takes"):
        names.make(names.BITRATE_CONTROLLERS, text)


@pytest.mark.parametrize("text", ["bba(5", "bba 5)", "bba(5))", "bba((5)", "bba(5)(6)", "bba(5)x", "", "()", " "])
def test_brackets_are_opened_and_closed_once(text: str) -> None:
    with pytest.raises(ConfigError, match="one pair of brackets"):
        names.make(names.BITRATE_CONTROLLERS, text)


def test_numbers_in_brackets_are_passed_on() -> None:
    assert names.make({"fraction": "fractions:Fraction"}, "fraction(6, 4)") == Fraction(3, 2)


CONTROLLER_TABLES = (names.BITRATE_CONTROLLERS, names.MAP_CONTROLLERS, names.MINIGOP_CONTROLLERS)


def test_each_problem_has_controllers_of_its_own() -> None:
    assert len({word for table in CONTROLLER_TABLES for word in table}) == sum(map(len, CONTROLLER_TABLES))


@pytest.mark.parametrize("table", CONTROLLER_TABLES)
def test_a_controller_of_another_problem_is_refused_with_names_of_the_right_kind(table: dict[str, str]) -> None:
    for other in CONTROLLER_TABLES:
        for word in () if other is table else other:
            with pytest.raises(ConfigError, match=f"unknown .* '{word}', which is a .*;") as refused:
                names.make_controller(table, word)
            assert any(known in str(refused.value).partition(";")[2] for known in table)


@pytest.mark.parametrize(
    ("body", "lacking"),
    [
        ("reset = act = print", "privileged"),
        ("privileged = 'no'; reset = act = print", "privileged"),
        ("privileged = False; act = 3", "reset, act"),
    ],
)
def test_a_foreign_class_that_is_no_controller_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, lacking: str
) -> None:
    module = f"foreign_{abs(hash(body))}"
    (tmp_path / f"{module}.py").write_text(f"class Nope:\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=rf"it lacks {lacking}\. A controller has reset\(seed, episode\)"):
        names.make_controller(names.BITRATE_CONTROLLERS, f"{module}:Nope", foreign=True)


@pytest.mark.parametrize(
    ("text", "means_file"),
    [
        ("bba", False),
        ("bba(5)", False),
        ("", False),
        ("bolla", False),
        ("x" * 5000, False),
        ("pkg.mine:Policy", False),
        ("runs/0007", True),
        ("0007", True),
        ("gone.safetensors", True),
    ],
)
def test_a_name_goes_before_a_file(
    text: str, means_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bba").touch()
    assert names.names_a_file(names.BITRATE_CONTROLLERS, text) == means_file


@pytest.mark.parametrize(("old", "new"), sorted(names.FORMER_MODULES.items()))
def test_a_module_named_before_the_move_is_found_where_it_is_now(old: str, new: str) -> None:
    tables = (*names.TABLES.values(), ENCODERS)
    targets = {target for table in tables for target in table.values() if target.startswith(f"{new}:")}
    assert targets, f"no table names {new}"
    for attribute in {target.partition(":")[2] for target in targets}:
        assert names.resolve({}, f"{old}:{attribute}", foreign=True) is names.resolve(
            {}, f"{new}:{attribute}", foreign=True
        )


@pytest.mark.parametrize(("old", "new"), sorted(names.FORMER_CLASSES.items()))
def test_a_class_is_found_by_the_name_it_had(old: str, new: str) -> None:
    assert names.resolve({}, old, foreign=True).__name__ == new
