"""Several players in one Doom match.

env                the PettingZoo environment: observations, rewards, ends
match_batch        many matches side by side, whose steps begin and end apart
match              one match: players meet, act together, end together
player_supervisor  the players' processes from outside: orders and answers, and who died or hangs is noticed here
player_process     one player from inside: an engine in a process of its own
shared_memory      what both sides share: pictures, facts, sightings
teams              who plays: trained, by chance, by a rule
oracle             the rule that knows where everybody is
"""
