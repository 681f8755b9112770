// The economy of a region and the climate of a world over one period of 5 years; README.md, "A period". The authors compute these in
// double from float32 states, and store the results as float32.
#pragma once
#include "hooks.h"
#include "lib/powers.h"

#define REGIONS 27
#define PERIODS 20
#define YEARS 5.0f  // of a period

// Numbers of a.numbers, in the order of spec.py.
#define PHI_T 0
#define B_T 4
#define PHI_M 6
#define B_M 15
#define F_2X 18
#define M_1750 19
#define A_1 20
#define A_2 21
#define GAMMA 22
#define ALPHA 23
#define KEEP 24

// Columns of a.periods, whose rows are periods.
#define FORCING 0
#define LAND 1
#define COST 2
#define INTENSITY 3
#define DISCOUNT 4

// double: a table holds each double as two floats, the rounded one and the rest.
GV_FN double exact(const float* table, gv_i32 at) { return (double)table[2 * at] + (double)table[2 * at + 1]; }

// double: as above.
GV_FN double of_period(const GvArgs& a, gv_i32 n, gv_i32 column) { return exact(a.periods, 5 * n + column); }

// The float next to a number of a period.
GV_FN float rounded_of_period(const GvArgs& a, gv_i32 n, gv_i32 column) { return a.periods[2 * (5 * n + column)]; }

// double: the logarithm of the library takes a float; the rest is added by its derivative.
GV_FN double log_of(double x) {
    const float nearest = (float)x;
    return gv_log_in_double(nearest) + (x - (double)nearest) / (double)nearest;
}

// double: see the head of this file. Labour is in thousands of its unit; ln 1000 is 6.9.
GV_FN float production_of(const GvArgs& a, float technology, float capital, float labor) {
    const double gamma = exact(a.numbers, GAMMA), people = gv_log_in_double(labor) - 6.907755278982137;
    return (float)((double)technology * gv_exp_in_double(gamma * gv_log_in_double(capital) + (1.0 - gamma) * people));
}

// double: as above.
GV_FN float gross_output_of(float damages, float abatement, float production) {
    return (float)((double)damages * (1.0 - (double)abatement) * (double)production);
}

// double: as above.
GV_FN float damages_of(const GvArgs& a, float air) {
    const double t = (double)air;
    return (float)(1.0 / (1.0 + exact(a.numbers, A_1) * t + exact(a.numbers, A_2) * t * t));
}

// double: factors near 1.
GV_FN float scaled(float value, double factor) { return (float)((double)value * factor); }

// double: a power with a small exponent of numbers from 10 to 1000.
GV_FN float next_labor(const GvArgs& a, float labor, gv_i32 region) {
    const double ratio = exact(a.people, region) - log_of(1.0 + (double)labor);
    return (float)((double)labor * gv_exp_in_double(exact(a.people, REGIONS + region) * ratio));
}

// double: as above.
GV_FN float next_capital(const GvArgs& a, float capital, float investment) {
    return (float)(exact(a.numbers, KEEP) * (double)capital + (double)YEARS * (double)investment);
}

// double: utility subtracts 1 from a power near 1.
GV_FN float utility_of(const GvArgs& a, float consumption, float labor) {
    const double people = (double)(labor / 1000.0f), rest = 1.0 - exact(a.numbers, ALPHA);
    return (float)(people * (gv_exp_in_double(rest * log_of((double)consumption / people + 1.0)) - 1.0) / rest);
}

// double: emissions are added in double.
GV_FN float emission_of(const GvArgs& a, float intensity, float rate, float production, gv_i32 n) {
    return (float)((double)intensity * (1.0 - (double)rate) * (double)production + (double)rounded_of_period(a, n, LAND));
}

// double: the authors divide by the initial capital in double. The share of goods that a region can pay.
GV_FN float paid_share(const GvArgs& a, float balance, float start) {
    const double ratio = a.old_debt_rule ? (double)(balance / 10.0f) * (double)start : 10.0 * (double)balance / (double)start;
    return (float)(1.0 + (ratio < -1.0 ? -1.0 : ratio > 0.0 ? 0.0 : ratio));
}

// double: see the head of this file. Temperatures and carbon at the end of period n.
GV_FN void next_climate(const GvArgs& a, const GvState& s, const float* emission, gv_i32 n) {
    double total = 0.0;
    for (gv_i32 i = 0; i < REGIONS; ++i) total += (double)emission[i];
    const double t[2] = {(double)s.air, (double)s.ocean}, m[3] = {(double)s.c_air, (double)s.c_upper, (double)s.c_lower};
    const double doublings = (gv_log_in_double(s.c_air) - log_of(exact(a.numbers, M_1750))) / 0.6931471805599453;
    const double heat = exact(a.numbers, F_2X) * doublings + (double)rounded_of_period(a, n, FORCING);
    float* const temperature = &s.air;
    float* const carbon = &s.c_air;
    for (gv_i32 i = 0; i < 2; ++i) {
        double next = exact(a.numbers, B_T + i) * heat;
        for (gv_i32 j = 0; j < 2; ++j) next += exact(a.numbers, PHI_T + 2 * i + j) * t[j];
        temperature[i] = (float)next;
    }
    for (gv_i32 i = 0; i < 3; ++i) {
        double next = exact(a.numbers, B_M + i) * total;
        for (gv_i32 j = 0; j < 3; ++j) next += exact(a.numbers, PHI_M + 3 * i + j) * m[j];
        carbon[i] = (float)next;
    }
}
