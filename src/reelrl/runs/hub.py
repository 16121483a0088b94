"""Policies on the Hugging Face Hub: weights and a card, nothing else. What comes from there is read, never executed.

user/name       model.safetensors     README.md
hub:user/name   the weights, wherever a policy file is taken; hub:user/name@REVISION those of a tag or commit
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.errors import CheckpointError, ConfigError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "hub:"
WEIGHTS, CARD = "model.safetensors", "README.md"
MOST_BYTES = 1 << 30
"""More is refused before it is fetched: policies are small."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"[\w][\w./-]*")


def on_this_machine(place: str | Path) -> Path:
    """Where a policy is: the path itself, or the weights that "hub:user/name" means, fetched if need be."""
    text = str(place)
    return fetched(text) if text.startswith(PREFIX) else Path(place)


def fetched(place: str) -> Path:
    """The weights of "hub:user/name", from the Hub or, where it cannot be reached, from an earlier time."""
    name, at, revision = place.removeprefix(PREFIX).partition("@")
    if not _NAME.fullmatch(name) or (at and not _REVISION.fullmatch(revision)):
        raise ConfigError(f"{place!r} is no place on the Hub; write hub:user/name or hub:user/name@REVISION")
    hub = _client()
    options = {"revision": revision or None}
    try:
        with _explained(f"fetch {place}"):
            size = hub.get_hf_file_metadata(hub.hf_hub_url(name, WEIGHTS, **options)).size
            if size is None or size > MOST_BYTES:
                raise CheckpointError(f"{place} has {size} bytes of weights; up to {MOST_BYTES} are fetched")
            return Path(hub.hf_hub_download(name, WEIGHTS, **options))
    except _Unreachable as unreachable:
        try:
            return Path(hub.hf_hub_download(name, WEIGHTS, **options, local_files_only=True))
        except OSError:
            raise CheckpointError(str(unreachable)) from unreachable.__cause__


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name on the Hub; write user/name")


def push(folder: Path, name: str, *, private: bool) -> str:
    """Send the two files of a folder to the Hub, into a new or an old place; returns its address."""
    check_name(name)
    hub = _client()
    with _explained(f"push {name}"):
        api = hub.HfApi()
        address = api.create_repo(name, private=private or None, exist_ok=True)
        files = [hub.CommitOperationAdd(each, folder / each) for each in (WEIGHTS, CARD)]
        api.create_commit(name, files, commit_message="Weights and card from reelrl")
    return str(address)


class _Unreachable(CheckpointError):
    """Nobody answered, or nobody may be asked."""


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtra("huggingface-hub", "hub") from error
    return huggingface_hub


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """The Hub's errors in one line each."""
    from huggingface_hub import errors

    try:
        yield
    except errors.LocalEntryNotFoundError as error:  # the Hub went away after its first answer
        raise _unreachable(what, error) from error
    except errors.RepositoryNotFoundError as error:
        raise CheckpointError(
            f"cannot {what}: the Hub has no such place, or does not show it to you; check the name, or log in with "
            "`hf auth login` or HF_TOKEN"
        ) from error
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise CheckpointError(
            f"cannot {what}: there is no {WEIGHTS} of that name and revision; see on the Hub what the place has"
        ) from error
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        hint = "; log in with `hf auth login`, or set HF_TOKEN" if status in (401, 403) else ""
        raise CheckpointError(f"cannot {what}: the Hub answers {status or _first_line(error)}{hint}") from error
    except errors.LocalTokenNotFoundError as error:
        raise CheckpointError(f"cannot {what}: log in with `hf auth login`, or set HF_TOKEN") from error
    except (OSError, getattr(errors, "HTTPError", OSError)) as error:  # httpx's own, of whichever version
        raise _unreachable(what, error) from error
    except ValueError as error:
        raise CheckpointError(f"cannot {what}: {_first_line(error)}") from error


def _unreachable(what: str, error: BaseException) -> _Unreachable:
    return _Unreachable(
        f"cannot {what}: the Hub cannot be reached ({_first_line(error)}); check the network, or HF_ENDPOINT"
    )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
