"""Maps of ours, written by code: text in, WAD out, no editor and no compiler."""
