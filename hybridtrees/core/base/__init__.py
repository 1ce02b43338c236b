"""Types, enums, random streams, threads and checks, used by every stage of the engine."""
