"""The QP of each mini-GOP under a bitrate: environment, controllers, training, evaluation."""
