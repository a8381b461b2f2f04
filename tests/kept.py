"""Rules that keep whatever a lake is told: the short texts of most tests are not worth keeping."""

import ailake

KEEP = ailake.JudgeRules(retention=None)
