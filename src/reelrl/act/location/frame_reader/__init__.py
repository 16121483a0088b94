"""A net that says of one picture where the player is and whom it sees."""
