"""Growing trees from statistics of rows."""
