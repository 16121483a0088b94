"""Games that somebody plays: an action in, a picture, a reward and perhaps the end out."""
