"""Chance, from one seed.

Every part of a run draws from its own named stream, so adding a draw in one place moves no other:

    stream(seed, "env", 3)      the generator of environment 3
    seed_for(seed, "policy")    a number for libraries that want one
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import sys
from typing import Any

import numpy as np

from reelrl.errors import ConfigError

# Names are looked up here and nowhere else: a state file must not choose which class is made.
_BIT_GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the names only, independent of that of any other names."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, names)))


def seed_for(seed: int, *names: str | int) -> int:
    """A seed in [0, 2**31) for `env.reset`, torch and others that take one number."""
    return int(_sequence(seed, names).generate_state(1)[0]) >> 1


def seed_globals(seed: int) -> None:
    """Seed what draws from hidden state: `random`, numpy's old functions, and torch where it is already imported."""
    random.seed(seed_for(seed, "random"))
    np.random.seed(seed_for(seed, "numpy"))  # noqa: NPY002, RUF100  # foreign code draws from it
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed_for(seed, "torch"))


def capture(generator: np.random.Generator) -> dict[str, Any]:
    """The generator's state as plain data that JSON holds exactly."""
    return {"generator": _to_plain(generator.bit_generator.state)}


def restore(captured: dict[str, Any]) -> np.random.Generator:
    """A generator that continues where the captured one stood."""
    try:
        state = captured["generator"]
        bit_generator = _BIT_GENERATORS[state["bit_generator"]]()
        bit_generator.state = _from_plain(state)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"this is no captured generator state ({error!r}); use what `capture` returned") from error
    return np.random.Generator(bit_generator)


def capture_globals() -> dict[str, Any]:
    """The hidden states that `seed_globals` seeds, as plain data."""
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "random": [version, list(words), gauss],
        "numpy": _to_plain(np.random.get_state(legacy=False)),  # noqa: NPY002, RUF100
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = _encode_bytes(torch.get_rng_state())
        if torch.cuda.is_initialized():
            state["cuda"] = [_encode_bytes(each) for each in torch.cuda.get_rng_state_all()]
    return state


def restore_globals(captured: dict[str, Any]) -> None:
    """Put the hidden states back; torch's only where torch is imported."""
    version, words, gauss = captured["random"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(_from_plain(captured["numpy"]))  # noqa: NPY002, RUF100
    torch = sys.modules.get("torch")
    if torch is None or "torch" not in captured:
        return
    torch.set_rng_state(_decode_bytes(torch, captured["torch"]))
    if "cuda" in captured and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([_decode_bytes(torch, each) for each in captured["cuda"]])


def _sequence(seed: int, names: tuple[str | int, ...]) -> np.random.SeedSequence:
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or seed < 0:
        raise ConfigError(f"seed is {seed!r}; give a whole number, 0 or more")
    # JSON keeps ("env", 3), ("env", "3") and ("env3",) apart.
    digest = hashlib.sha256(json.dumps(names, default=int).encode()).digest()
    return np.random.SeedSequence(int(seed), spawn_key=np.frombuffer(digest, "<u4").tolist())


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item() if isinstance(value, np.generic) else value


def _from_plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.keys() == {"dtype", "values"}:
        return np.array(value["values"], dtype=value["dtype"])
    return {key: _from_plain(item) for key, item in value.items()}


def _encode_bytes(tensor: Any) -> str:
    return base64.b64encode(tensor.numpy().tobytes()).decode()


def _decode_bytes(torch: Any, text: str) -> Any:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
