"""Where is everybody? Views of one moment, compared, fused, and read as places on the map."""
