"""Matches on disk: what `reel collect doom` writes and `MatchData` reads. The layout is told in docs/matches.md."""
