"""The budget of a campaign, in answers, money or hours: what is spent, what open batches will cost, what is left.

Everything that a person was asked and replied to costs, whatever the reply: answers, second answers, gold questions,
skips, the holdout. A person who corrects an answer is paid once, but the time of both counts. A file that was retracted
was a mistake and costs nothing; answers of a person who was retracted were paid for. Rules and models work for free.
An open batch reserves what its tasks still want, and closing it gives that back.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from hedgerow import checks
from hedgerow.campaign import tables
from hedgerow.campaign.answers import RETRACT
from hedgerow.campaign.database import Database, read_meta, write_meta
from hedgerow.campaign.tables import LIVE, SETTLED
from hedgerow.errors import CampaignError, InputError

KEY = "budget"  # in `meta`
LABELS, MONEY, HOURS = "labels", "money", "hours"
UNITS = (LABELS, MONEY, HOURS)
DECIMALS = {LABELS: 0, MONEY: 2, HOURS: 1}
ROUNDING = 1e-9  # relative: sums of prices such as 0.1 are not exact


@dataclass(frozen=True)
class Budget:
    """What a campaign costs. limit: None if there is none.

    answers: how many were given; waiting: how many open batches still want. each: what one of these is expected to
    cost, None for hours while no answer has told how long it took.
    """

    unit: str
    limit: float | None
    spent: float
    answers: int
    waiting: int
    each: float | None

    @property
    def reserved(self) -> float:
        """What the answers that open batches still want will cost."""
        return self.waiting * (self.each or 0.0)

    @property
    def left(self) -> float | None:
        """What can still be asked for; below zero if more was spent than planned."""
        return None if self.limit is None else self.limit - self.spent - self.reserved

    def to_json(self) -> dict[str, Any]:
        """The same in plain types, with what follows from it."""
        return asdict(self) | {"reserved": self.reserved, "left": self.left}

    def __str__(self) -> str:
        reserved = f"{_round(self.reserved, self.unit)} reserved"
        if self.left is None or self.limit is None:
            return f"{describe(self.spent, self.unit)} spent, {reserved}; no limit"
        unknown = "" if self.each is not None else "; how long an answer takes is not known yet"
        spent = f"{_round(self.spent, self.unit)} of {describe(self.limit, self.unit)} spent"
        return f"{spent}, {reserved}, {_round(self.left, self.unit)} left{unknown}"


def describe(amount: float, unit: str) -> str:
    """An amount in words."""
    return _round(amount, unit) + ("" if unit == MONEY else f" {unit}")


def _round(amount: float, unit: str) -> str:
    return f"{amount:,.{DECIMALS[unit]}f}"


@dataclass(frozen=True)
class Limit:
    """What was set. per_answer: money, or seconds, of an answer of which nothing else is known."""

    unit: str = LABELS
    limit: float | None = None
    per_answer: float | None = None


def read_budget(database: Database) -> Budget:
    """What is spent, reserved and left now; in labels if no budget is set."""
    with database.read() as connection:
        return count_costs(connection)


def count_costs(connection: sa.Connection) -> Budget:
    """The same within a transaction."""
    limit = _read_limit(connection)
    people = connection.execute(sa.text(_SPENT), {"retract": RETRACT}).all()
    waiting = int(connection.execute(sa.text(_WAITING)).scalar() or 0)
    answers = sum(int(row.answers) for row in people)
    spent, each = float(answers), 1.0
    if limit.unit == MONEY:
        each = limit.per_answer or 0.0
        spent = sum(int(row.answers) * (each if row.rate is None else float(row.rate)) for row in people)
    if limit.unit == HOURS:
        seconds, timed = sum(float(row.seconds or 0) for row in people), sum(int(row.timed) for row in people)
        mean = seconds / timed if timed else limit.per_answer
        spent = (seconds + (answers - timed) * (mean or 0.0)) / 3600
        return Budget(HOURS, limit.limit, spent, answers, waiting, None if mean is None else mean / 3600)
    return Budget(limit.unit, limit.limit, spent, answers, waiting, each)


_SPENT = (
    "SELECT a.rate, count(*) AS answers, sum(x.seconds) AS seconds, sum(CASE WHEN x.seconds IS NULL THEN 0 ELSE 1 END) "
    "AS timed FROM (SELECT e.annotator, sum(e.seconds) AS seconds FROM event e LEFT JOIN source s ON s.id = e.source "
    'WHERE e.kind <> :retract AND s.retracted_at IS NULL GROUP BY e."row", e."class", e.annotator) x '
    "JOIN annotator a ON a.id = x.annotator WHERE a.kind = 'person' GROUP BY a.id, a.rate"
)
# A disputed task has all the answers that were wanted, and waits for one more.
_WAITING = (
    "SELECT sum(CASE WHEN t.wanted > t.given THEN t.wanted - t.given ELSE 1 END) FROM task t JOIN batch b "
    f"ON b.id = t.batch WHERE b.state = '{LIVE}' AND t.state < {SETTLED}"
)


def find_budget(connection: sa.Connection) -> Budget | None:
    """The budget, if one is set; without one nothing is counted, which would take a second for a million answers."""
    return None if _read_limit(connection).limit is None else count_costs(connection)


def _read_limit(connection: sa.Connection) -> Limit:
    found = read_meta(connection, KEY)
    return Limit() if found is None else Limit(**json.loads(found))


def refuse_beyond(database: Database, answers: int) -> None:
    """Refuse to ask for more answers than are left."""
    with database.read() as connection:
        budget = find_budget(connection)
    if budget is None or budget.left is None or budget.limit is None:
        return
    cost = answers * (budget.each or 0.0)
    if budget.left <= 0 or cost > budget.left + ROUNDING * budget.limit:
        raise CampaignError(
            f"the batch would cost {describe(cost, budget.unit)}, and of the budget "
            f"{describe(max(0.0, budget.left), budget.unit)} are left ({budget}): ask for less, raise the budget, or "
            "pass over_budget=True (--over-budget)"
        )


# Setting.


def check_limit(
    database: Database, amounts: Mapping[str, float | None], per_answer: float | None, rates: Mapping[str, float]
) -> Limit:
    """The limit to set, checked: one of the amounts by unit, or the limit that is set with other prices."""
    unit = checks.exactly_one(dict(amounts), allow_none=True)
    if per_answer is not None:
        per_answer = checks.real(per_answer, "per_answer", above=0)
    for name, rate in rates.items():
        checks.real(rate, f"the rate of {name}", least=0)
    if unit is None and per_answer is None and not rates:
        raise InputError("nothing to set: give labels, money or hours")
    if unit is not None:
        limit = Limit(unit, checks.real(amounts[unit], unit, above=0), per_answer)
    else:
        with database.read() as connection:
            held = _read_limit(connection)
        if held.limit is None:
            raise InputError("there is no budget whose prices could change: give money or hours as well")
        limit = Limit(held.unit, held.limit, held.per_answer if per_answer is None else per_answer)
    if limit.unit == LABELS and limit.per_answer is not None:
        raise InputError("a budget of labels has no price per answer: set one of money or hours")
    if limit.unit == MONEY and limit.per_answer is None:
        raise InputError(
            "a budget of money needs per_answer (--per-answer): what an answer costs from people without a rate of "
            "their own, and what an open task is expected to cost"
        )
    if rates and limit.unit != MONEY:
        raise InputError(f"rates are for a budget of money, and this one is of {limit.unit}")
    return limit


def set_budget(database: Database, limit: Limit, rates: Mapping[int, float]) -> None:
    """Set a limit that was checked. rates: money per answer by annotator."""
    person = tables.annotator
    with database.write() as connection:
        write_meta(connection, KEY, json.dumps(asdict(limit)))
        for number, rate in rates.items():
            connection.execute(sa.update(person).where(person.c.id == number).values(rate=rate))
        database.note(connection, "budget", {**asdict(limit), "rates": len(rates)})


def remove_budget(database: Database) -> None:
    """From now on there is no limit."""
    with database.write() as connection:
        if read_meta(connection, KEY) is None:
            raise CampaignError("there is no budget to remove")
        write_meta(connection, KEY, None)
        database.note(connection, "budget", {"limit": None})
