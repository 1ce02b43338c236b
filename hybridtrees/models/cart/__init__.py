"""Classification and regression trees."""
