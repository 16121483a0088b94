"""How mini-GOP controllers are judged: encodes of everybody, verdicts, the page."""
