"""The location net: views of some players to the places of all."""
