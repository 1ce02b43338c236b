"""Models that choose, weigh and stop other models by rows that these have not seen."""
