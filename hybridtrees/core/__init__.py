"""The engine: arrays, structs and loops. It knows nothing of estimators."""
