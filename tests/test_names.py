from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

import reelrl
from reelrl import names
from reelrl.errors import ConfigError, ReelError

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = [(kind, name) for kind, table in names.TABLES.items() for name in table]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_of_every_table_resolves(kind: str, name: str) -> None:
    assert callable(names.resolve(names.TABLES[kind], name))


def test_a_foreign_class_is_imported_as_written() -> None:
    assert names.resolve(names.CONTROLLERS, "collections:OrderedDict") is OrderedDict


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
        names.resolve(names.BACKENDS, name)


def test_an_import_that_fails_inside_a_foreign_module_is_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_policy.py").write_text("import a_package_it_lacks")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_it_lacks"):
        names.resolve(names.CONTROLLERS, "broken_policy:Policy")


def test_the_public_surface_is_lazy_and_complete() -> None:
    for name in reelrl.__all__:
        assert getattr(reelrl, name) is not None
        assert name in dir(reelrl)
    assert reelrl.ReelError is ReelError
    with pytest.raises(AttributeError, match="no attribute 'Rum'; did you mean 'Run'"):
        _ = reelrl.Rum


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


@pytest.mark.parametrize("text", ["bba(five)", "bba(1,2,3,4,5,6)", "robustmpc(nan,x)"])
def test_wrong_arguments_in_brackets_are_explained(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write numbers that \w+ takes"):
        names.make(names.CONTROLLERS, text)


def test_numbers_in_brackets_are_passed_on() -> None:
    assert names.make({"fraction": "fractions:Fraction"}, "fraction(6, 4)") == Fraction(3, 2)
