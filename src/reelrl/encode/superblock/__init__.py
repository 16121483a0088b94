"""QP offsets inside a frame: environment, states, rewards, maps, training, evaluation."""
