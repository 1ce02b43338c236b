"""Types, enums, random streams and threads: what every stage of the engine stands on."""
