"""What a million samples cost: a dated table of prices, or the user's own figures.

Prices are data with their source and date (``prices.yaml``). They are applied to the results of a
query and never stored with a result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from cmbench.errors import Error
from cmbench_results.values import number

_TABLE = Path(__file__).parent / "prices.yaml"
_HOURS_A_YEAR = 8760.0
_OWN = ("price_per_hour", "purchase_price", "lifetime_years", "price_per_kwh")


@dataclass(frozen=True, slots=True)
class Price:
    """What an hour of a machine costs, who says so, and when it was read."""

    per_hour: float
    currency: str
    kind: str
    provider: str = ""
    instance: str = ""
    region: str = ""
    source: str = ""
    captured: str = ""

    def text(self) -> str:
        """Return the price as people read it."""
        machine = " ".join(filter(None, (self.provider, self.instance, self.region)))
        dated = f", {self.captured}" if self.captured else ""
        return f"{self.per_hour:g} {self.currency}/h ({machine or self.kind}, {self.kind}{dated})"


@dataclass(frozen=True, slots=True)
class CostModel:
    """How results are priced: by the user's own figures where there are any, else by the table."""

    own: Price | None = None
    purchase_per_hour: float = 0.0
    per_kwh: float | None = None

    def price(self, row: Mapping[str, Any]) -> Price | None:
        """Return the price of an hour of the machine of a result; ``None`` if unknown."""
        if self.own is not None:
            return self.own
        if self.purchase_per_hour or self.per_kwh is not None:
            watts = row.get("power") or 0.0
            energy = (self.per_kwh or 0.0) * watts / 1000
            if self.per_kwh is not None and not watts and not self.purchase_per_hour:
                return None
            return Price(self.purchase_per_hour + energy, "USD", "owned")
        return listed(str(row.get("system", "")))

    def per_million(self, row: Mapping[str, Any]) -> float | None:
        """Return the cost of a million samples, or tokens; ``None`` without throughput or price."""
        price = self.price(row)
        rate: float | None = row.get("throughput")
        if price is None or not rate:
            return None
        return price.per_hour / (rate * 3600) * 1e6


def of_flags(flags: Mapping[str, object]) -> CostModel:
    """Return the prices that a command line gives; raise ``bad-value``."""
    amounts = {name: _amount(name, flags[name]) for name in _OWN if name in flags}
    if "price_per_hour" in amounts:
        return CostModel(Price(amounts["price_per_hour"], "USD", "own price"))
    if "purchase_price" in amounts and not amounts.get("lifetime_years"):
        raise Error(
            "needs-input",
            "a purchase price needs the years of use",
            hint="add --lifetime_years=4",
        )
    hours = amounts.get("lifetime_years", 0.0) * _HOURS_A_YEAR
    purchase = amounts["purchase_price"] / hours if "purchase_price" in amounts else 0.0
    return CostModel(None, purchase, amounts.get("price_per_kwh"))


def _amount(name: str, value: object) -> float:
    amount = number(value)
    if amount is None or amount < 0:
        raise Error("bad-value", f"--{name}={value} is not an amount", hint=f"write --{name}=12.5")
    return amount


@lru_cache(4096)
def listed(system: str) -> Price | None:
    """Return the listed price of the cloud instance that the name of a system contains."""
    return next((price for name, price in table() if name.search(system)), None)


@cache
def table() -> tuple[tuple[re.Pattern[str], Price], ...]:
    """Return all listed prices, with the patterns of the names of their instances."""
    import yaml

    data = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    common = {name: data[name] for name in ("currency", "kind")}
    prices = []
    for provider, offer in data["providers"].items():
        where = {name: offer[name] for name in ("region", "source", "captured")}
        for name, per_hour in offer["instances"].items():
            price = Price(per_hour, provider=provider, instance=name, **common, **where)
            prices.append((_pattern(name), price))
    return tuple(prices)


def _pattern(instance: str) -> re.Pattern[str]:
    """Return the name as a whole, with any of the separators that submitters write."""
    parts = map(re.escape, re.split(r"[._]", instance))
    return re.compile(rf"(?<![a-z0-9]){'[._-]'.join(parts)}(?![a-z0-9])", re.IGNORECASE)
