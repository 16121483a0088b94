"""`reel pretrain ...`: encoders that learn without labels."""
