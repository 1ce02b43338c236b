"""Benchmarks of hybridtrees alone; peers are compared by ``asv_bench/peers.py``."""
