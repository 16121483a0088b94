"""Several players in one Doom match: environment, match, player processes."""
