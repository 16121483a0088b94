"""`reel compare ...`"""
