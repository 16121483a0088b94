"""BenchMARL as all tests here have it: prepared for our torchrl before anything else imports either."""

import reelrl.act.marl.benchmarl  # noqa: F401
