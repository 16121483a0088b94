"""The quantiser of every frame that libaom codes in two passes: environment, rule, evaluation."""
