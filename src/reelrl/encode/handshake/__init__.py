"""An encoder of any kind, steered over files in a folder: messages, trainer's side, encoder's side."""
