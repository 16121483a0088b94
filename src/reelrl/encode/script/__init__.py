"""`run` and `register_callbacks`: an encode with two callbacks, in the spelling of SVT-AV1's command line."""
