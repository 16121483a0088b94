"""Files that are whole or absent, locks that a dead process gives back, and a cache keyed by content."""
