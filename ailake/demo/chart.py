"""The demo's chart: forgetting curves, and the weights that decay has written."""

from pathlib import Path
from typing import Any

import numpy as np

from ailake.core.episodic import RecencyConfig, recency_weight
from ailake.demo.story import Story
from ailake.errors import MissingExtraError

_CURVES = {
    "daily": RecencyConfig.DAILY_DECAY,
    "weekly (default)": RecencyConfig.WEEKLY_DECAY,
    "monthly": RecencyConfig.MONTHLY_DECAY,
    "quarterly": RecencyConfig.QUARTERLY_DECAY,
}
_RUNS = ("#8c8c8c", "#7a5195", "#1f1f1f")
_COLOURS = ("#b04a5a", "#d98e3f", "#2f7f79", "#39588f")


def draw(story: Story, file: Path) -> None:
    """Save the chart as a picture.

    Args:
        story: What the demo did.
        file: Where to; its ending says the format, such as .png or .svg.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtraError.of("the chart", extra="chart") from error
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curves(left)
    _draw_weights(right, story)
    figure.savefig(file, dpi=110)


def _draw_curves(axes: Any) -> None:
    days = np.linspace(0, 120, 481)
    for (name, recency), colour in zip(_CURVES.items(), _COLOURS, strict=True):
        axes.plot(days, recency_weight(days, recency), color=colour, label=name, lw=2)
        if recency.half_life <= days[-1]:
            axes.plot(recency.half_life, 0.5, "o", color=colour, ms=5)
    axes.axhline(0.5, color="#999999", lw=0.8, ls=":")
    axes.set(
        title="Forgetting curves (dots: half-life)",
        xlabel="days since the last access",
        ylabel="recency weight",
        ylim=(0, 1.02),
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_weights(axes: Any, story: Story) -> None:
    for (date, weights), colour in zip(story.weights, _RUNS, strict=True):
        instants, values = zip(*weights, strict=True)
        axes.scatter(instants, values, s=9, color=colour, alpha=0.7, label=f"run at {date:%d %b}")
    axes.set(
        title="Weights written by three decay runs (monthly curve)",
        xlabel="when it was first said (points above a curve: said again since)",
        ylabel="stored recency_weight",
        ylim=(0, 1.02),
    )
    axes.tick_params(axis="x", labelrotation=30)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
