"""`reel train ...`"""
