"""From whatever the user passes to clean arrays."""
