"""Embeddings of others: read as they are, or refused with what was found and what is wanted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from reelrl.act.recording.reader import MatchInfo
from reelrl.act.views.precomputed import PrecomputedEmbeddings
from reelrl.errors import ContentError

if TYPE_CHECKING:
    from pathlib import Path

INFO = MatchInfo("rooms-0000", "rooms", "train", 0, 10, 2, "")
RIGHT = {"schema": 1, "encoder": "mine", "stride": 4}


def folder_of(path: Path, facts: Any = RIGHT, array: Any = None) -> Path:
    (path / "embeddings.json").write_text(facts if isinstance(facts, str) else json.dumps(facts))
    np.save(path / "rooms-0000.npy", np.zeros((2, 3, 5), np.float32) if array is None else array)
    return path


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    saved = np.random.default_rng(0).normal(size=(2, 3, 5))
    found = PrecomputedEmbeddings(folder_of(tmp_path, array=saved))
    assert (found.name, found.stride, found.has(INFO)) == ("mine", 4, True)
    assert np.array_equal(found.rows(None, INFO, lambda _: None), saved)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ("{", "is damaged"),
        ("[1]", r"has schema '\[1\]'"),
        ({**RIGHT, "schema": 2}, "has schema '2', this reelrl reads 1"),
        ({**RIGHT, "stride": 0}, "says stride 0"),
        ({**RIGHT, "stride": True}, "says stride True"),
        ({**RIGHT, "encoder": " "}, "encoder ' '"),
    ],
)
def test_facts_that_cannot_be_are_told(tmp_path: Path, facts: Any, told: str) -> None:
    with pytest.raises(ContentError, match=told):
        PrecomputedEmbeddings(folder_of(tmp_path, facts))


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros((2, 4, 5)), r"has shape \(2, 4, 5\); .* 10 rows, of which every 4th makes \[2, 3, D\]"),
        (np.zeros((3, 5)), r"has shape \(3, 5\)"),
        (np.zeros((2, 3, 0)), r"has shape \(2, 3, 0\)"),
        (np.zeros((2, 3, 5), int), "holds int64"),
        (np.full((2, 3, 5), np.nan), "not all finite"),
        (np.array([{"a": 1}]), "is no array"),
    ],
)
def test_arrays_that_cannot_be_are_told(tmp_path: Path, array: Any, told: str) -> None:
    with pytest.raises(ContentError, match=told):
        PrecomputedEmbeddings(folder_of(tmp_path, array=array)).rows(None, INFO, lambda _: None)  # type: ignore[arg-type]


def test_a_match_that_is_missing_is_told(tmp_path: Path) -> None:
    (folder_of(tmp_path) / "rooms-0000.npy").unlink()
    with pytest.raises(ContentError, match=r"rooms-0000\.npy"):
        PrecomputedEmbeddings(tmp_path).rows(None, INFO, lambda _: None)  # type: ignore[arg-type]
