"""Teams that learn to play: the BenchMARL task, actor, critic, training."""
