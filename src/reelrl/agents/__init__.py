"""Learners that know spaces, not stages; one readable file per algorithm."""
