"""Whatever the user passes, turned to clean arrays."""
