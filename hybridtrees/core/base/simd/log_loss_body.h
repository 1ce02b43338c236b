/* Bodies that log_loss.h compiles once per vector width; no include guard on purpose. */

HT_TARGET static void HT_NAME(row_scores)(const double *restrict table, int m, ptrdiff_t n,
                                          const double *restrict theta, double *restrict scores) {
    for (ptrdiff_t r = 0; r < n; r++) {
        const double *row = table + r * m;
        double part[8] = {0};
        for (int j = 0; j < m; j += 8)
            for (int l = 0; l < 8; l++)
                part[l] += row[j + l] * theta[j + l];
        for (int l = 0; l < 4; l++)
            part[l] += part[l + 4];
        scores[r] = (part[0] + part[2]) + (part[1] + part[3]);
    }
}

HT_TARGET static void HT_NAME(row_losses)(const double *restrict scores,
                                          const double *restrict own,
                                          const double *restrict weight, ptrdiff_t n,
                                          double *restrict proba, double *restrict losses) {
    for (ptrdiff_t r = 0; r < n; r++) {
        const double score = scores[r], e = ht_exp(score > 0.0 ? -score : score);
        const double away = own[r] == 1.0 ? -score : score;
        proba[r] = (score > 0.0 ? 1.0 : e) / (1.0 + e);
        losses[r] = weight[r] * (ht_log1p_unit(e) + (away > 0.0 ? away : 0.0));
    }
}

HT_TARGET static void HT_NAME(column_sums)(const double *restrict table, int m, ptrdiff_t n,
                                           const double *restrict weight,
                                           double *restrict sums) {
    for (ptrdiff_t r = 0; r < n; r++) {
        const double *row = table + r * m;
        for (int j = 0; j < m; j++)
            sums[j] += weight[r] * row[j];
    }
}

HT_TARGET static void HT_NAME(column_squares)(const double *restrict table, int m, ptrdiff_t n,
                                              const double *restrict weight,
                                              const double *restrict mean,
                                              double *restrict sums) {
    for (ptrdiff_t r = 0; r < n; r++) {
        const double *row = table + r * m;
        for (int j = 0; j < m; j++) {
            const double away = row[j] - mean[j];
            sums[j] += weight[r] * away * away;
        }
    }
}

HT_TARGET static void HT_NAME(scale_rows)(const double *restrict table, int m, ptrdiff_t n,
                                          const double *restrict factor,
                                          double *restrict scaled) {
    for (ptrdiff_t r = 0; r < n; r++)
        for (int j = 0; j < m; j++)
            scaled[r * m + j] = factor[r] * table[r * m + j];
}
