"""The QP of each mini-GOP under a bitrate.

protocols, run          what an encoder asks, who answers, and one pass of both
source/                 the encoder in this process: sample encodes, probe, plan, then the pass
controllers/            who answers: rules, a leaky bucket, a search, its imitation, a trained agent
env, stepped_source     the same as an environment: state, reference (rewards and costs), record (replay)
train, training/        learning: on which videos, with which encoders
evaluate, evaluation/   judging: points of everybody, verdicts, the page
fit                     of the imitation
"""
