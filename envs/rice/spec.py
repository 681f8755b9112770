"""Spec of RICE-N: parameters, state, spaces, tables of the authors' numbers."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Constant, Field, Metric, Scratch, Table
from gpu_vecenv.spec.params import Param, Params
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.validation import abbreviated

FOLDER = Path(__file__).parent
N = 27
PERIODS = 20

LEAST_WARMING, MOST_WARMING = 1.2506777048110962, 7.006738662719727
"""Temperature rises at the authors' bounds 1 and 0 of the climate index, in K."""

LEAST_OUTPUT, MOST_OUTPUT = 606.57275390625, 9673.5322265625
"""Gross output, added over the periods, at the authors' bounds 0 and 1 of the economic index, in 10^12 USD/year."""

FORMS = ("parts", "whole")


@cache
def calibration() -> dict[str, Any]:
    """Return the authors' numbers: ``world``, ``regional_shared``, ``env``, and ``regional`` with a float64 array (27,) each."""
    content = json.loads((FOLDER / "data" / "rice_params.json").read_text())
    return {**content, "regional": {name: np.asarray(values) for name, values in content["regional"].items()}}


def choices(params: Params) -> int:
    """Choices of an entry that is a rate: 0 to 1 - 1/levels in steps of 1/levels, and 1 with ``full_rates``."""
    return int(params["num_discrete_action_levels"]) + int(params["full_rates"])


def action(params: Params) -> MultiDiscrete:
    """57 rates: savings, mitigation, export limit, 27 tariffs, 27 imports; with negotiation 54 more, and 27 decisions."""
    rates, decisions = (3 + 4 * N, N) if params["negotiation_on"] else (3 + 2 * N, 0)
    return MultiDiscrete([choices(params)] * rates + [2] * decisions)


def num_shared(params: Params) -> int:
    """Numbers that all regions observe alike: 1,007, and the stage with negotiation."""
    return 8 + int(params["negotiation_on"]) + 10 * N + N * N


def num_own(params: Params) -> int:
    """Further numbers of a region: its id and 9 numbers; with negotiation its least mitigation and 6 rows of 27 pairs."""
    return N + 9 + (1 + 6 * N) * int(params["negotiation_on"])


def box(length: int) -> Box:
    """Float32 numbers without bounds."""
    return Box(-np.inf, np.inf, (length,), np.float32)


def observation(params: Params) -> Box:
    """Space of a region: its own part, or the whole row of 1,043 or 1,207 numbers."""
    return box(num_own(params) + (num_shared(params) if params["observe"] == "whole" else 0))


def shared(params: Params) -> Box | None:
    """Part that all regions observe alike; None with whole rows."""
    return box(num_shared(params)) if params["observe"] == "parts" else None


def masked(params: Params) -> tuple[int, ...]:
    """The mitigation rate has a mask with negotiation."""
    return (1,) if params["negotiation_on"] else ()


def effects(params: Params) -> dict[str, range]:
    """With negotiation, a step reads the entries of its kind alone: those of a period, of proposals, or of decisions."""
    if not params["negotiation_on"]:
        return {}
    return {"period": range(3 + 2 * N), "proposals": range(3 + 2 * N, 3 + 4 * N), "decisions": range(3 + 4 * N, 3 + 5 * N)}


def rounds(params: Params) -> int:
    """1 with negotiation, whose matrices are then part of the state; otherwise 0."""
    return int(params["negotiation_on"])


def check(params: Params) -> None:
    """Raise ParameterError for another form of observations."""
    if params["observe"] not in FORMS:
        raise ParameterError(f"WarpRice-v0: observe must be one of {', '.join(FORMS)}, got {abbreviated(params['observe'])}.")


def scratch(params: Params) -> int:
    """Floats of scratch: those of an observation, and behind them the levels of a period, whose other numbers share its place."""
    return num_shared(params) + 10 * N + 3 * staged(N * N) * rounds(params) + staged(57 * N)


def staged(count: int) -> int:
    """Floats of scratch with room for bytes that are copied in words."""
    return -(-count // 4) + 1


# ---- tables -------------------------------------------------------------------------------------------------------------


def rates(params: Params) -> np.ndarray:
    """Rate of each level, the level of rate 1 included."""
    levels = int(params["num_discrete_action_levels"])
    return np.arange(levels + 1) / levels


def starts(params: Params) -> np.ndarray:
    """Capital, labour, technology and intensity of each region at the start."""
    return np.stack([calibration()["regional"][f"x{name}_0"] for name in ("K", "L", "A", "sigma")])


def start_climate(params: Params) -> np.ndarray:
    """Temperatures of air and ocean, carbon in atmosphere, upper and lower ocean at the start."""
    world, alike = calibration()["world"], calibration()["regional_shared"]
    return np.array([alike["xT_AT_0"], alike["xT_LO_0"], world["xM_AT_0"], world["xM_UP_0"], world["xM_LO_0"]])


def warming(params: Params) -> np.ndarray:
    """Temperatures of air and ocean after a period, by those before and the forcing, (2, 3)."""
    return np.column_stack([calibration()["world"]["xPhi_T"], np.ravel(calibration()["world"]["xB_T"])])


def mixing(params: Params) -> np.ndarray:
    """Carbon in atmosphere, upper and lower ocean after a period, by that before and the emissions, (3, 4)."""
    return np.column_stack([calibration()["world"]["xPhi_M"], np.ravel(calibration()["world"]["xB_M"])])


def exogenous(params: Params) -> np.ndarray:
    """By period: forcing, land emissions of a region, discount. Row 0 is the start, without forcing and land emissions."""
    world, alike = calibration()["world"], calibration()["regional_shared"]
    n = np.arange(PERIODS + 1.0)
    f0, f1 = world["xf_0"], world["xf_1"]
    forcing = (n > 0) * (f0 + np.minimum(f1 - f0, (f1 - f0) / world["xt_f"] * (n - 1)))
    land = (n > 0) * (world["xE_L0"] * (1 - world["xdelta_EL"]) ** (n - 1) / N)
    return np.stack([forcing, land, (1 + alike["xrho"]) ** (-world["xDelta"] * n)], 1)


def trends(params: Params) -> np.ndarray:
    """By period: cost of full mitigation over the carbon intensity, and the factor of the intensity."""
    world, alike = calibration()["world"], calibration()["regional_shared"]
    n = np.arange(PERIODS + 1.0)
    cost = alike["xp_b"] / (1000 * alike["xtheta_2"]) * (1 - alike["xdelta_pb"]) ** (n - 1)
    intensity = np.exp(-alike["xg_sigma"] * (1 - alike["xdelta_sigma"]) ** (5 * (n - 1)) * world["xDelta"])
    return np.stack([cost, intensity], 1)


def kept_capital(params: Params) -> float:
    """Share of capital that is left after a period."""
    return float((1 - calibration()["regional_shared"]["xdelta_K"]) ** calibration()["world"]["xDelta"])


def growth(params: Params) -> np.ndarray:
    """Factor of technology by period and region."""
    n = np.arange(PERIODS + 1)[:, None]
    of = calibration()["regional"]
    years = calibration()["world"]["xDelta"]
    factors: np.ndarray = np.exp(calibration()["env"]["growth_eta"]) + of["xg_A"] * np.exp(-of["xdelta_A"] * years * (n - 1))
    return factors


def people(params: Params) -> np.ndarray:
    """Logarithm of 1 + the limit of labour, and the exponent of its growth, by region."""
    return np.stack([np.log1p(calibration()["regional"]["xL_a"]), calibration()["regional"]["xl_g"]])


def by_region(name: str, doc: str, unit: str = "-") -> Field:
    """A float for each region."""
    return Field(name, "float32", (N,), doc, unit)


def levels(name: str, shape: tuple[Any, ...], doc: str) -> Field:
    """Rates as levels."""
    return Field(name, "uint8", shape, doc, "1/levels", 0, lambda p: p["num_discrete_action_levels"])


def regional(name: str, key: str, doc: str, unit: str = "-") -> Constant:
    """A double that is the same for all regions."""
    return Constant(name, lambda p: calibration()["regional_shared"][key], doc, unit, "float64")


MONEY, FLOW = "10^12 USD", "10^12 USD/year"
PAIRS = (rounds, N, N)

SPEC = EnvSpec(
    name="WarpRice-v0",
    kernel=FOLDER / "rice.cu",
    roles=(Role("region", N, masked=masked, shared=shared, effects=effects),),
    observation=observation,
    action=action,
    params=(
        Param("num_discrete_action_levels", 10, "int32", "levels of a rate", low=2, high=255),
        Param("negotiation_on", False, "bool", "True: before each period, a step of proposals and one of decisions"),
        Param("full_rates", False, "bool", "True: rates have one more level, which is 1"),
        Param("old_debt_rule", False, "bool", "True: the authors' debt rule until 2023-08-23"),
        Param("observe", "parts", None, '"parts": what all regions observe alike is stored once; "whole": in each row'),
    ),
    state=(
        Field("temperature", "float32", (2,), "rise of atmosphere and lower ocean since 1750", "K", names=("air", "ocean")),
        Field("carbon", "float32", (3,), "in atmosphere, upper and lower ocean", "Gt", names=("c_air", "c_upper", "c_lower")),
        Field("period", "int32", (), "periods so far", "5 years", low=0, high=PERIODS),
        Field("damages", "float32", (), "factor of the climate on output in the last period"),
        by_region("capital", "capital", MONEY),
        by_region("labor", "labour", "10^6 persons"),
        by_region("technology", "total factor productivity"),
        by_region("intensity", "carbon intensity of production", "Gt / 10^12 USD"),
        by_region("balance", "balance of trade", MONEY),
        by_region("mitigation_cost", "cost of full mitigation, as a share of production"),
        by_region("production", "production of the last period, before damages and abatement", FLOW),
        by_region("gross_output", "gross output of the last period", FLOW),
        by_region("consumption", "consumption of the last period", FLOW),
        by_region("utility", "utility of the last period"),
        levels("savings", (N,), "savings rate"),
        levels("mitigation", (N,), "mitigation rate"),
        levels("export_limit", (N,), "largest share of output that is exported"),
        levels("minimum_mitigation", (N,), "mitigation rate that a region agreed to"),
        levels("tariffs", (N, N), "by importer and exporter, for the next period"),
        levels("promises", PAIRS, "mitigation rate that a region offers to each other one"),
        levels("requests", PAIRS, "mitigation rate that a region asks of each other one"),
        Field("decisions", "uint8", PAIRS, "1 if a region accepts the proposal of each other one", low=0, high=1),
    ),
    sizes=("negotiation_on",),
    scratch=(Scratch("memory", "float32", scratch, "numbers of a period, then those of an observation", align=4),),
    constants=(
        Constant(
            "foreign_weight", lambda p: calibration()["env"]["armington_for_pref_total"] / (N - 1), "weight of a partner's goods"
        ),
        Constant("interest", lambda p: 1 + calibration()["env"]["balance_interest_rate"], "factor of the balance in a period"),
        Constant("most_warming", lambda p: MOST_WARMING, "temperature rise at climate index 0", "K"),
        Constant("per_warming", lambda p: 1 / (LEAST_WARMING - MOST_WARMING), "climate index by temperature rise", "1/K"),
        Constant("least_output", lambda p: LEAST_OUTPUT / PERIODS, "gross output of a period at economic index 0", FLOW),
        Constant("per_output", lambda p: 1 / (MOST_OUTPUT - LEAST_OUTPUT), "economic index by gross output", "year / 10^12 USD"),
        regional("gamma", "xgamma", "exponent of capital in production"),
        regional("alpha", "xalpha", "curvature of utility"),
        regional("damage_1", "xa_1", "damages by the temperature rise", "1/K"),
        regional("damage_2", "xa_2", "damages by the squared temperature rise", "1/K^2"),
        Constant("kept_capital", kept_capital, "share of capital that is left after a period", dtype="float64"),
        Constant("doubled_carbon", lambda p: calibration()["world"]["xF_2x"], "forcing of doubled carbon", "W/m^2", "float64"),
        Constant(
            "carbon_1750", lambda p: calibration()["world"]["xM_AT_1750"], "carbon in the atmosphere of 1750", "Gt", "float64"
        ),
    ),
    tables=(
        Table("start", starts, "[4, 27] capital, labour, technology, intensity at the start"),
        Table("start_climate", start_climate, "[5] temperatures and carbon at the start"),
        Table("warming", warming, "[2, 3] air and ocean, by air, ocean and forcing", dtype="float64"),
        Table("mixing", mixing, "[3, 4] atmosphere, upper, lower ocean, by the three and emissions", dtype="float64"),
        Table("exogenous", exogenous, "[21, 3] forcing, land emissions of a region, discount"),
        Table("trends", trends, "[21, 2] cost of mitigation over intensity, factor of intensity", dtype="float64"),
        Table("growth", growth, "[21, 27] factor of technology", dtype="float64"),
        Table("people", people, "[2, 27] logarithm of the limit of labour, exponent of its growth", dtype="float64"),
        Table("rate", rates, "[levels + 1] rate of each level"),
        Table(
            "abatement",
            lambda p: rates(p) ** calibration()["regional_shared"]["xtheta_2"],
            "[levels + 1] rate to the power theta 2",
        ),
    ),
    check=check,
    metrics=(
        Metric("temperature_rise", "last", "rise of the temperature of the atmosphere since the start", "K"),
        Metric("gross_output", "sum", "gross output of all regions, added over the periods", FLOW),
        Metric("climate_index", "last", "1 at the authors' bound of least warming, 0 at that of most"),
        Metric("economic_index", "sum", "0 at the authors' bound of least gross output, 1 at that of most"),
    ),
    limit_is_rule=True,
    rewards={"utility": "utility of the region's consumption, in the steps of a period; 0 in the steps of negotiation"},
)
