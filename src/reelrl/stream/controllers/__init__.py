"""Who chooses the next rung: heuristics, model predictive control, the optimum, a trained network."""
