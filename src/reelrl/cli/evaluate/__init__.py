"""`reel evaluate ...`"""
