"""What forests share: the fit, samples, out-of-bag errors, warm start, and packed trees."""
