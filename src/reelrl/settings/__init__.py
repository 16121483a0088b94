"""Settings: frozen dataclasses <-> plain mappings <-> YAML, and the named ones that ship with the package."""
