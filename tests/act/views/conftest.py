from __future__ import annotations

from tests.encode.fixtures import own_cache

__all__ = ["own_cache"]
