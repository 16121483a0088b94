"""What a net must beat: answers from true positions on screen, from its own pictures, from none."""
