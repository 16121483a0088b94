"""`reel demo`: one video over one bad network, watched with three controllers."""
