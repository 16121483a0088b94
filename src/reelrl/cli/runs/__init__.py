"""Commands about run folders of every kind."""
