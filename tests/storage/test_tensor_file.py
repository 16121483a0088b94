"""Equal content is equal bytes, and a policy that is loaded and saved is the same file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load, save_file

from reelrl.runs import policy_file
from reelrl.runs.policy_file import Policy
from reelrl.storage import tensor_file

if TYPE_CHECKING:
    from pathlib import Path


def test_metadata_has_one_order_and_comes_back(tmp_path: Path) -> None:
    facts = {name: f'{{"a": "{name} é \\n"}}' for name in "qwertyuiop"}
    arrays = {"b": np.arange(6.0).reshape(2, 3).T, "a": np.arange(3, dtype=np.int64)}
    made = {tensor_file.to_bytes(arrays, dict(order)) for order in (facts.items(), reversed(facts.items()))}
    assert len(made) == 1
    data = made.pop()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert list(header["__metadata__"]) == sorted(facts)
    found = load(data)
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    (tmp_path / "f.safetensors").write_bytes(data)
    with safe_open(tmp_path / "f.safetensors", "np") as file:
        assert file.metadata() == facts


def test_a_file_with_one_fact_is_what_safetensors_writes(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"x": np.arange(5, dtype=np.float32), "y": np.zeros((2, 2))}
    save_file(arrays, tmp_path / "theirs", {"facts": '{"a": "é", "b": [1, null]}'})
    assert tensor_file.to_bytes(arrays, {"facts": '{"a": "é", "b": [1, null]}'}) == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize("kind", ["options", "levels", "range"])
def test_loading_and_saving_a_policy_is_the_identity(kind: str, tmp_path: Path) -> None:
    shapes = {
        "options": {"options": (2, 3)},
        "levels": {"options": (5,), "levels": (-1.0, -0.1, 0.0, 0.3, 1 / 3)},
        "range": {"low": (-1.0,) * 5, "high": (0.1,) * 5, "bounded": "tanh"},
    }
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=size).astype(np.float32), np.ones(size[0], np.float32)) for size in ((4, 3), (5, 4))]
    facts = {"z": 1, "a": [0.1, None], "steps": 24}
    Policy(layers, "tanh", facts=facts, **shapes[kind]).save(tmp_path / "one")  # type: ignore[arg-type]
    policy_file.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_loading_and_saving_a_bitrate_policy_is_the_identity(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from reelrl.stream.controllers.learned import load_policy, save_policy
    from reelrl.stream.controllers.network import make_policy

    facts = {"step": 5, "score": 0.1, "best": -1 / 3}
    save_policy(make_policy(6, 16, 0, torch.device("cpu")), tmp_path / "one", facts)
    policy, found = load_policy(tmp_path / "one")
    save_policy(policy, tmp_path / "two", found)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
