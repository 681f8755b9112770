// The economy of a region and the climate of a world over one period of 5 years; README.md, "A period". The authors compute these in
// double from float32 states, and store the results as float32.
#pragma once
#include "world.h"
#include "lib/powers.h"

#define REGIONS 27
#define PERIODS 20
#define YEARS 5.0f  // of a period

// Columns of w.tables.exogenous, whose rows are periods.
#define FORCING 0
#define LAND 1
#define DISCOUNT 2

// A number of period n that the authors round to float32.
GV_FN float of_period(const GvWorld& w, int n, int column) { return w.tables.exogenous[3 * n + column]; }

// double: see the head of this file. Labour is in thousands of its unit; ln 1000 is 6.9.
GV_FN float production_of(const GvWorld& w, float technology, float capital, float labor) {
    const double people = gv_log_in_double(labor) - 6.907755278982137;
    return (float)((double)technology * gv_exp_in_double(w.params.gamma * gv_log_in_double(capital) + (1.0 - w.params.gamma) * people));
}

// double: as above.
GV_FN float gross_output_of(float damages, float abatement, float production) {
    return (float)((double)damages * (1.0 - (double)abatement) * (double)production);
}

// double: as above.
GV_FN float damages_of(const GvWorld& w, float air) {
    const double t = (double)air;
    return (float)(1.0 / (1.0 + w.params.damage_1 * t + w.params.damage_2 * t * t));
}

// double: factors near 1.
GV_FN float scaled(float value, double factor) { return (float)((double)value * factor); }

// double: a power with a small exponent of numbers from 10 to 1000.
GV_FN float next_labor(const GvWorld& w, float labor, int region) {
    const double ratio = w.tables.people[region] - gv_log_in_double(1.0 + (double)labor);
    return (float)((double)labor * gv_exp_in_double(w.tables.people[REGIONS + region] * ratio));
}

// double: as above.
GV_FN float next_capital(const GvWorld& w, float capital, float investment) {
    return (float)(w.params.kept_capital * (double)capital + (double)YEARS * (double)investment);
}

// double: utility subtracts 1 from a power near 1.
GV_FN float utility_of(const GvWorld& w, float consumption, float labor) {
    const double people = (double)(labor / 1000.0f), rest = 1.0 - w.params.alpha;
    return (float)(people * (gv_exp_in_double(rest * gv_log_in_double((double)consumption / people + 1.0)) - 1.0) / rest);
}

// double: emissions are added in double.
GV_FN float emission_of(const GvWorld& w, float intensity, float rate, float production, int n) {
    return (float)((double)intensity * (1.0 - (double)rate) * (double)production + (double)of_period(w, n, LAND));
}

// double: the authors divide by the initial capital in double. The share of goods that a region can pay.
GV_FN float paid_share(const GvWorld& w, float balance, float start) {
    const double ratio = w.params.old_debt_rule ? (double)(balance / 10.0f) * (double)start : 10.0 * (double)balance / (double)start;
    return (float)(1.0 + (ratio < -1.0 ? -1.0 : ratio > 0.0 ? 0.0 : ratio));
}

// double: see the head of this file. Temperatures and carbon at the end of period n.
GV_FN void next_climate(const GvWorld& w, const GvState& s, const float* emission, int n) {
    double total = 0.0;
    for (int i = 0; i < REGIONS; ++i) total += (double)emission[i];
    const double t[2] = {(double)s.air, (double)s.ocean}, m[3] = {(double)s.c_air, (double)s.c_upper, (double)s.c_lower};
    const double doublings = gv_log_in_double(m[0] / w.params.carbon_1750) / 0.6931471805599453;
    const double heat = w.params.doubled_carbon * doublings + (double)of_period(w, n, FORCING);
    float* const temperature = &s.air;
    float* const carbon = &s.c_air;
    for (int i = 0; i < 2; ++i) {
        double next = w.tables.warming[3 * i + 2] * heat;
        for (int j = 0; j < 2; ++j) next += w.tables.warming[3 * i + j] * t[j];
        temperature[i] = (float)next;
    }
    for (int i = 0; i < 3; ++i) {
        double next = w.tables.mixing[4 * i + 3] * total;
        for (int j = 0; j < 3; ++j) next += w.tables.mixing[4 * i + j] * m[j];
        carbon[i] = (float)next;
    }
}
