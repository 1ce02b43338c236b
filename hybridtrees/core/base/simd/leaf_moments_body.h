/* Bodies that leaf_moments.h compiles once per vector width; no include guard on purpose. */

/* Add n rows to the sums; all_weigh: all hessians are positive. */
HT_TARGET static void HT_NAME(leaf_rows)(HtLeafRows *rows, int n, int all_weigh, int k,
                                         const double *shift, const double *factor) {
    const int padded = (n + HT_LEAF_LANES - 1) / HT_LEAF_LANES * HT_LEAF_LANES;
    int at = 0;
    for (int i = n; i < padded; i++)
        rows->hess[i] = rows->grad[i] = 0.0;
    for (int j = 0; j < k; j++) {
        double *z = rows->z[j];
        const int n_missing = ht_standardise(z, rows->known, n, shift[j], factor[j]);
        for (int i = n; i < padded; i++)
            z[i] = 0.0;
        if (n_missing == 0)
            for (int i = 0; i < padded; i++)
                rows->known[i] = 1.0;
        else
            for (int i = n; i < padded; i++)
                rows->known[i] = 0.0;
        if (n_missing == 0 && all_weigh)
            ht_widen_range(z, n, &rows->low[j], &rows->high[j]);
        else
            for (int i = 0; i < n; i++)
                if (rows->hess[i] > 0 && rows->known[i] > 0) {
                    rows->low[j] = z[i] < rows->low[j] ? z[i] : rows->low[j];
                    rows->high[j] = z[i] > rows->high[j] ? z[i] : rows->high[j];
                }
        rows->n_missing[j] += n_missing;
        ht_add_products(rows->hess, rows->known, padded, rows->h[j]);
        ht_add_products(rows->hess, z, padded, rows->hz[j]);
        ht_add_products(rows->grad, z, padded, rows->gz[j]);
    }
    for (int i = 0; i < k; i++) {
        for (int r = 0; r < padded; r++)
            rows->weighted[r] = rows->hess[r] * rows->z[i][r];
        for (int j = i; j < k; j++)
            ht_add_products(rows->weighted, rows->z[j], padded, rows->squares[at++]);
    }
}

/* total += coef * (clip(x) - center); a missing x adds nothing. */
HT_TARGET static void HT_NAME(line_term)(const double *x, int n, double coef, double center,
                                         double low, double high, double *total) {
    for (int i = 0; i < n; i++) {
        double clipped = x[i] > low ? x[i] : low;
        clipped = clipped < high ? clipped : high;
        total[i] += x[i] == x[i] ? coef * (clipped - center) : 0.0;
    }
}
