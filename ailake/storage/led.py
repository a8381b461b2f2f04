"""What a graph leads recall to, beside the lists: found and compared as what these bring is."""

from collections.abc import Sequence
from dataclasses import replace

from ailake.core.filter_values import CheckedTexts
from ailake.core.filters import conjunction
from ailake.core.records import SearchReport
from ailake.storage.lists import search_lists
from ailake.storage.memories import predicate, survivors
from ailake.storage.pool import Found, Pool
from ailake.storage.question import Question
from ailake.storage.scan import scan_held
from ailake.storage.view import ReadView


def led_to(view: ReadView, question: Question, *, limit: int) -> list[list[str]]:
    """Return the first memories that the question's graph leads to, a list of ids per scope.

    Some may be of facts, or of memories that recall does not see. Those that lost a race are
    replaced by their survivors.

    Args:
        view: The memories.
        question: What is looked for; without a graph nothing is read.
        limit: How many of each scope.
    """
    if question.graph is None or question.text is None:
        return []
    named = question.graph.led_to(question.scopes, question.text, limit=limit)
    return [list(dict.fromkeys(survivors(view, ids))) for ids in named]


def with_led(
    view: ReadView, question: Question, found: Found, led: Sequence[Sequence[str]]
) -> Found:
    """Return what was found with those of some memories that the lists did not bring.

    These are filtered and compared exactly like all others, by true distances. They come on top:
    what the lists prove stays as it is.

    Args:
        view: The memories.
        question: What is looked for.
        found: What the lists brought.
        led: Ids of what the graph leads to, by scope.
    """
    known = set(found.pool.ids)
    missing = dict.fromkeys(one for ids in led for one in ids if one not in known)
    if not missing:
        return found
    named = predicate({"chunk_id": {"in": CheckedTexts(missing)}})
    narrowed = replace(question, asked=conjunction(question.asked, named))
    more = scan_held(view, narrowed, limit=len(missing))
    if more is None:
        more = search_lists(view, narrowed, limit=len(missing), exact=True)
    if not more.pool.ids:
        return found
    # Turns of one may stand beside turns of the other: both are looked up together.
    pool = replace(Pool.joined([found.pool, more.pool]), neighbours=None)
    return Found(pool, _report(found.report, more))


def _report(report: SearchReport, more: Found) -> SearchReport:
    return replace(
        report,
        exact=report.exact and more.report.exact,
        bound_held=report.bound_held and more.report.bound_held,
        scored=report.scored + more.report.scored,
        listed={**report.listed, "graph": len(more.pool.ids)},
    )
