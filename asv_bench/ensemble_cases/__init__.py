"""Cases of ``ensemble_peers.py``: a module for each ensemble, with a list CASES of dicts."""
