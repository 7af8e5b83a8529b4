"""A short campaign with the seed of the day, and that a wrong solver is found."""

import dataclasses
import datetime

import numpy as np
import pytest

from campaign import run
from campaign.elsewhere import by_portable_instructions
from campaign.learners import LEARNERS
from campaign.plan import Kind, choose
from campaign.run import attempt
from campaign.solvers import SOLVERS
from campaign.workers import campaign


QUICK = [name for name, solver in SOLVERS.items() if not solver.compiled]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_two_thousand_problems():
    seed = int(f"{datetime.date.today():%Y%m%d}")
    print(f"seed {seed}")
    tally = campaign(2000, seed, choose(QUICK), most=40)
    print(tally.table())
    assert sum(tally.problems.values()) >= 1900
    assert not tally.lines, "\n".join(tally.lines)


def spoilt(spoil):
    """The solver of dense problems with something else as its result."""
    one = SOLVERS["assignment"]
    return {"assignment": dataclasses.replace(one, solve=lambda batch: spoil(one.solve(batch)))}


def costs_less(res):
    cost = res.cost.copy()
    cost[3] -= 1
    return res.replace(cost=cost)


def other_pairs(res):
    """A matching, too, but not the best one."""
    col4row, row4col = res.col4row.copy(), res.row4col.copy()
    col4row[3, :2] = col4row[3, 1::-1]
    row4col[3] = np.argsort(col4row[3])[: row4col.shape[1]]
    return res.replace(col4row=col4row, row4col=row4col)


def other_status(res):
    return res.replace(status=np.where(np.arange(len(res.status)) == 3, 1, res.status))


@pytest.mark.parametrize("spoil", [costs_less, other_pairs, other_status])
def test_a_wrong_solver_is_found(spoil):
    """By a line that makes the same batch again."""
    for seed in range(100):  # a batch of square problems, all of which are solved
        kind = Kind("assignment", "digits", "float32", seed, 8)
        batch, res, wrong = attempt(kind)
        if batch.arrays.keys() == {"cost"} and batch.arrays["cost"].shape[1:] == (4, 4):
            break
    assert not wrong
    _, _, wrong = attempt(kind, spoilt(spoil))
    assert set(wrong) >= {3}
    line = kind.line(3)
    assert line == (
        "python -m campaign --solver assignment --family digits --dtype float32 "
        f"--seed {seed} --size 8 --problem 3"
    )
    again, _, _ = attempt(kind)
    np.testing.assert_array_equal(again.arrays["cost"], batch.arrays["cost"])


def test_results_that_depend_on_the_place_are_found():
    one, calls = SOLVERS["assignment"], []

    def solve(batch):
        res = one.solve(batch)
        calls.append(len(batch.arrays["cost"]))
        return res.replace(gap=res.gap + np.float32(len(calls) - 1) * (np.arange(8) == 5))

    wrong = attempt(
        Kind("assignment", "digits", "float32", 0, 8),
        {"assignment": dataclasses.replace(one, solve=solve)},
    )[2]
    assert calls == [8, 8] and [*wrong.values()] == ["other bits in place 5"]


def test_results_that_depend_on_devices_are_found():
    one = SOLVERS["assignment traced"]
    kind = Kind("assignment traced", "digits", "float32", 0, 8)
    assert one.elsewhere is not None and attempt(kind)[2] == {}

    def elsewhere(batch):
        res = one.elsewhere(batch)
        return res.replace(gap=res.gap + np.float32(np.arange(8) == 5))

    wrong = attempt(kind, {kind.solver: dataclasses.replace(one, elsewhere=elsewhere)})[2]
    assert wrong == {5: "other bits on several devices"}


def test_results_that_depend_on_instructions_are_found(monkeypatch):
    kind = Kind("assignment", "digits", "float32", 8, 8)
    assert attempt(kind)[2] == {}

    def otherwise(solve, *words):
        res = by_portable_instructions(solve, *words)
        return res.replace(gap=res.gap + np.float32(np.arange(8) == 5))

    monkeypatch.setattr(run, "by_portable_instructions", otherwise)
    assert attempt(kind)[2] == {5: "other bits by portable instructions"}


def test_wrong_derivatives_are_found():
    one = SOLVERS["assignment/derivative"]

    def solve(batch):
        found = one.solve(batch)
        by_cost = found.gradient["cost"] * np.where(np.arange(8) == 3, 2, 1)[:, None, None]
        return found._replace(gradient={"cost": by_cost.astype(np.float32)})

    wrong = attempt(
        Kind("assignment/derivative", "digits", "float32", 0, 8),
        {"assignment/derivative": dataclasses.replace(one, solve=solve, elsewhere=None)},
    )[2]
    assert 3 in wrong and wrong[3].startswith("derivative by cost")


@pytest.mark.parametrize("field", ["value", "gradient"])
@pytest.mark.parametrize("name", LEARNERS)
def test_wrong_losses_and_estimators_among_hostile_problems_are_found(name, field):
    if (name, field) == ("DetectionCriterion", "gradient"):
        pytest.skip("its derivative is only finite")
    one = SOLVERS[name]

    def solve(batch):
        found = one.solve(batch)
        x = getattr(found, field).copy()
        x.reshape(len(x), -1)[2, 0] += 0.25
        return found._replace(**{field: x})

    kind = Kind(name, "NaN", "float32", 0, 8)
    assert attempt(kind)[2] == {}
    wrong = attempt(kind, {name: dataclasses.replace(one, solve=solve)})[2]
    assert 2 in wrong and wrong[2].startswith({"value": "value", "gradient": "derivative"}[field])


WRONG_FLOWS = {
    "flow": (lambda x: x + 1, "flow["),
    "cost": (lambda x: x + 1, "cost"),
    "status": (lambda x: 0 * x + 3, "no failure's fields"),
}


@pytest.mark.parametrize("what", WRONG_FLOWS)
def test_wrong_flows_of_least_cost_are_found(what):
    one, (change, reason) = SOLVERS["minimum cost flow/auto"], WRONG_FLOWS[what]

    def solve(batch):
        found = one.solve(batch)
        own = {what: change(getattr(found.result, what))}
        return found._replace(result=found.result.replace(**own))

    for seed in range(100):  # a batch of more than loops, some of which has an optimum
        kind = Kind("minimum cost flow/auto", "small", "int32", seed, 8)
        batch, res, wrong = attempt(kind)
        solved = np.flatnonzero(res.status == 0)
        if len({*batch.options["edges"][0], *batch.options["edges"][1]}) > 3 and solved.size:
            break
    assert not wrong
    wrong = attempt(kind, {kind.solver: dataclasses.replace(one, solve=solve)})[2]
    assert any(reason in wrong.get(int(k), "") for k in solved)


@pytest.mark.parametrize("name", ["flow", "matching", "grid cut"])
def test_checks_that_prove_too_much_or_too_little_are_found(name):
    one = SOLVERS[f"{name} checked"]
    kind = Kind(f"{name} checked", "small", "int32", 1, 8)

    def solve(batch):
        found = one.solve(batch)
        return found._replace(optimal=found.optimal ^ (np.arange(8) == 5))

    assert attempt(kind)[2] == {}
    wrong = attempt(kind, {kind.solver: dataclasses.replace(one, solve=solve)})[2]
    assert 5 in wrong and "but the check says" in wrong[5]
