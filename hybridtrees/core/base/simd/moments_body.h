/* Bodies that moments.h compiles once per vector width; no include guard on purpose. */

#define HT_ADD_COUNT(add, vector)                                                             \
    for (int32_t j = 0; j < m->n_features; j += 4) {                                          \
        vector *cells = (vector *) m->cells;                                                  \
        const vector *moments = (const vector *) block->moments;                              \
        const uint32_t *codes = block->codes[j / 4], *start = m->start + j;                   \
        switch (m->n_features - j) {                                                          \
            case 1: add(cells, start, 1, codes, moments, n); break;                           \
            case 2: add(cells, start, 2, codes, moments, n); break;                           \
            case 3: add(cells, start, 3, codes, moments, n); break;                           \
            default: add(cells, start, 4, codes, moments, n);                                 \
        }                                                                                     \
    }

HT_TARGET static void HT_NAME(add_block)(const HtMoments *m, const HtMomentBlock *block, int n,
                                         int wide, int lanes) {
    if (wide) {
        HT_ADD_COUNT(ht_add_doubles4, ht_doubles4)
    } else if (lanes == 4) {
        HT_ADD_COUNT(ht_add_floats4, ht_floats4)
    } else {
        HT_ADD_COUNT(ht_add_floats8, ht_floats8)
    }
}

#undef HT_ADD_COUNT
