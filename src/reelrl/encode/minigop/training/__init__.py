"""What mini-GOP training codes, and the encoders that it steers: in this process, or a foreign program."""
