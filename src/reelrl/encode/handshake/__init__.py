"""An encoder of any kind, steered over files in a folder.

messages, episode                 what is said, and how it is checked
folder                            whole messages only; waiting for one, with a time-out
trainer_side, encoder_process     who decides: how long the encoder may be silent, and what became of its process
encoder_side                      who codes: how long an answer may take, then the encoder's own QP counts
reference_encoder, pass_log       what the program `reel-encoder` does, and the log that it writes
"""
