"""How controllers of frames are judged: encodes of everybody, verdicts, the page."""
