"""Frames on their way to the learner: fetched ahead, uploaded, scaled."""
