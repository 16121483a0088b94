"""Teams that learn to play: settings and their checks, evaluation; what is made with BenchMARL is in `benchmarl`."""
