"""A real player: the server of page, segments and decisions, and the links it plays them over."""
