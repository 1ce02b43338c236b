"""Cases of ``second_round.py``: a module for each topic, with a list CASES of dicts."""
