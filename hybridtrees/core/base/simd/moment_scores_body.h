/* Bodies that moment_scores.h compiles once per vector width; no include guard on purpose. */

HT_INLINE void HT_NAME(moment_loop)(const double *restrict left, int n, const double *restrict all,
                                    const double *restrict to_left, const double *restrict to_right,
                                    double lambda, double least, int has_l, int has_x,
                                    double *restrict scores) {
    for (int c = 0; c < n; c++) {
        const double *at = left + c;
        double h = at[HT_H * HT_CANDIDATES], g = at[HT_G * HT_CANDIDATES];
        double rh = all[HT_H] - h, rg = all[HT_G] - g;
        double l = 0, ll = 0, gl = 0, rl = 0, rll = 0, rgl = 0;
        double x = 0, xx = 0, gx = 0, lx = 0, rx = 0, rxx = 0, rgx = 0, rlx = 0;
        double lh, lg, ml, hh, hg, mh, score;
        if (has_l) {
            l = at[HT_L * HT_CANDIDATES];
            ll = at[HT_LL * HT_CANDIDATES];
            gl = at[HT_GL * HT_CANDIDATES];
            rl = all[HT_L] - l;
            rll = all[HT_LL] - ll;
            rgl = all[HT_GL] - gl;
        }
        if (has_x) {
            x = at[HT_X * HT_CANDIDATES];
            xx = at[HT_XX * HT_CANDIDATES];
            gx = at[HT_GX * HT_CANDIDATES];
            rx = all[HT_X] - x;
            rxx = all[HT_XX] - xx;
            rgx = all[HT_GX] - gx;
        }
        if (has_l && has_x) {
            lx = at[HT_LX * HT_CANDIDATES];
            rlx = all[HT_LX] - lx;
        }
        lh = h + to_left[HT_H];
        lg = g + to_left[HT_G];
        ml = l + to_left[HT_L];
        hh = rh + to_right[HT_H];
        hg = rg + to_right[HT_G];
        mh = rl + to_right[HT_L];
        score = ht_side_score(lh, lg, ml, ll + to_left[HT_LL], gl + to_left[HT_GL], h, g, l, x, xx,
                              gx, lx, lambda, has_l, has_x)
            + ht_side_score(hh, hg, mh, rll + to_right[HT_LL], rgl + to_right[HT_GL], rh, rg, rl,
                            rx, rxx, rgx, rlx, lambda, has_l, has_x);
        scores[c] = (lh > 0.0) & (hh > 0.0) & (lh >= least) & (hh >= least) ? score : -INFINITY;
    }
}

HT_TARGET static void HT_NAME(moment_scores)(
    const double *left, int n, const double *all, const double *to_left, const double *to_right,
    double lambda, double least, int has_l, int has_x, double *scores) {
    if (has_l && has_x)
        HT_NAME(moment_loop)(left, n, all, to_left, to_right, lambda, least, 1, 1, scores);
    else if (has_l)
        HT_NAME(moment_loop)(left, n, all, to_left, to_right, lambda, least, 1, 0, scores);
    else if (has_x)
        HT_NAME(moment_loop)(left, n, all, to_left, to_right, lambda, least, 0, 1, scores);
    else
        HT_NAME(moment_loop)(left, n, all, to_left, to_right, lambda, least, 0, 0, scores);
}
