"""Laws of packing: what tasks share is stored once, and comes out as it went in."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reelrl.content.clip import Clip
from reelrl.content.generated.clips import generated_clip
from reelrl.parallel import parcels
from reelrl.parallel.machine_facts import cpu_features, differences, machine_facts
from reelrl.parallel.parcels import FileWanted, Sender, unpacked
from reelrl.storage import cache
from reelrl.storage.files import cache_dir
from reelrl.storage.travelling_file import TravellingFile
from tests.parallel.functions import content_hash, total


class Store:
    """An object store that is a list; references are places in it."""

    def __init__(self) -> None:
        self.objects: list[Any] = []

    def put(self, value: Any) -> int:
        # As Ray does: what is stored is a copy.
        self.objects.append(pickle.loads(pickle.dumps(value)))
        return len(self.objects) - 1

    def get(self, reference: int) -> Any:
        return self.objects[reference]

    def received(self, parcel: parcels.Parcel) -> Any:
        arrays = None if parcel.arrays is None else self.get(parcel.arrays)
        return unpacked(parcel.body, arrays, parcel.files, self.get)


def test_a_clip_that_many_tasks_share_is_stored_once() -> None:
    store = Store()
    sender = Sender(store.put)
    clip = generated_clip("street", size=(256, 192), frames=4).load()
    packed = [sender.pack(content_hash, clip) for _ in range(5)]
    assert len(store.objects) == 1
    assert all(len(parcel.body) < 4000 for parcel in packed)
    function, received = store.received(packed[3])
    assert function is content_hash
    assert received.content_hash == clip.content_hash


def test_arrays_stay_until_nobody_needs_them() -> None:
    store = Store()
    sender = Sender(store.put)
    first, second, third = (np.full(100_000, number) for number in range(3))
    one = sender.pack(total, (first, 0))
    sender.release(one)
    assert sender.pack(total, (first, 1)).arrays == one.arrays  # still there for the next
    two = sender.pack(total, (second, 0))
    sender.release(two)
    sender.pack(total, (third, 0))
    assert len(sender._shared) == 2  # the first is under way, the second is forgotten
    assert sender.pack(total, (second, 1)).arrays != two.arrays


def test_small_arrays_stay_inside_their_task() -> None:
    store = Store()
    parcel = Sender(store.put).pack(total, (np.arange(10), 1))
    assert parcel.arrays is None
    assert not store.objects
    function, task = store.received(parcel)
    assert function(task) == 46


def test_a_file_that_is_not_there_is_asked_for_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(parcels, "CHUNK_BYTES", 1000)
    path = tmp_path / "clip.yuv"
    made = generated_clip("street", size=(64, 48), frames=3)
    path.write_bytes(b"".join(frame.data.tobytes() for frame in made))
    clip, store = Clip.open(path, size=(64, 48), fps=25), Store()
    sender = Sender(store.put)
    here = store.received(sender.pack(content_hash, clip))
    assert here[1].content_hash == made.content_hash  # where the file is, it is read from there
    parcel = sender.pack(content_hash, clip)
    path.rename(tmp_path / "elsewhere.yuv")
    with pytest.raises(FileWanted, match=str(path)):
        store.received(parcel)
    (tmp_path / "elsewhere.yuv").rename(path)
    sender.send_file(str(path))
    parcel = sender.pack(content_hash, clip)
    path.unlink()
    assert len(store.objects) == 14  # 13,824 bytes in pieces
    assert store.received(parcel)[1].content_hash == made.content_hash
    assert len(list((tmp_path / "cache" / "files").iterdir())) == 1
    store.objects.clear()
    assert store.received(parcel)[1].content_hash == made.content_hash  # without asking again


def test_a_travelling_file_is_a_path() -> None:
    file = TravellingFile(__file__)
    assert Path(file) == Path(__file__)
    assert pickle.loads(pickle.dumps(file)) == __file__
    assert not TravellingFile("/nowhere").is_here((0, 0))


class Home:
    def __init__(self) -> None:
        self.results: dict[str, bytes] = {}

    def load(self, name: str) -> bytes | None:
        return self.results.get(name)

    def store(self, name: str, data: bytes) -> None:
        self.results[name] = data


def test_results_go_home_and_come_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELRL_CACHE", str(tmp_path / "node"))
    home, made = Home(), []

    def make() -> bytes:
        made.append(1)
        return b"result"

    path = cache_dir() / "kind" / "key.bin"
    with cache.second_home(home):
        assert cache.cached(path, make, cache.RAW) == b"result"
    assert home.results == {"kind/key.bin": b"result"}
    path.unlink()
    with cache.second_home(home):
        assert cache.cached(path, make, cache.RAW) == b"result"
    assert cache.cached(path, make, cache.RAW) == b"result"  # here too, by now
    assert made == [1]


def test_machines_are_compared_by_what_changes_bytes() -> None:
    mine = {"reelrl": "1", "svtav1": "4.1, sample a", "cpu": "AVX2"}
    assert differences(mine, dict(mine)) == ([], [])
    refused, labelled = differences(mine, {"reelrl": "1", "svtav1": "4.1, sample b", "cpu": "AVX2 AVX512F"})
    assert refused == ["svtav1 is 4.1, sample b, here 4.1, sample a"]
    assert labelled == ["cpu is AVX2 AVX512F, here AVX2"]
    assert differences(mine, {})[0] == ["reelrl is unknown, here 1", "svtav1 is unknown, here 4.1, sample a"]


@pytest.mark.slow
def test_this_machine_says_what_it_is() -> None:
    facts = machine_facts()
    assert {"reelrl", "python", "numpy", "machine", "cpu", "svtav1", "aom"} <= facts.keys()
    assert "sample" in facts["aom"]
    assert all(name.isidentifier() for name in cpu_features())
