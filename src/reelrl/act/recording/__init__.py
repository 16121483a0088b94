"""Matches on disk: what `reel collect doom` writes and `MatchData` reads. The layout: docs/how-to/record-matches.md."""
