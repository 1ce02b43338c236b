"""The enums and constants of _types.pxd for Python, which never writes down their numbers."""

MISSING_KEY = HT_MISSING_KEY
ALL_KEYS = HT_ALL_KEYS
TIE_BINNED = HT_TIE_BINNED
TIE_SORTED = HT_TIE_SORTED
ROUNDING = HT_ROUNDING
