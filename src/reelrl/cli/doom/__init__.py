"""`reel check|collect|init|watch doom`"""
