"""Cases of `ensemble_peers.py`: one module per kind of ensemble, each with a list `CASES`."""
