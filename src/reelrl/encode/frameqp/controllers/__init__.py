"""Who decides: rules and learned policies."""
